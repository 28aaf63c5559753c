// Multi-head attention, in Java.
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

record MultiHead(int nHeads, double[][] wQ, double[][] wK, double[][] wV,
                 double[][] wO) {
    record Result(double[][] output, List<double[][]> weights) {}

    // Returns the output (n, d_model) and a map of weights for each head.
    Result forward(double[][] x, boolean[][] mask) {
        double[][] q = Matrix.multiply(x, wQ);
        double[][] k = Matrix.multiply(x, wK);
        double[][] v = Matrix.multiply(x, wV);
        int dHead = x[0].length / nHeads;
        double[][] merged = new double[x.length][x[0].length];
        List<double[][]> weights = new ArrayList<>();
        for (int h = 0; h < nHeads; h++) {
            int first = h * dHead;
            Attention.Result head = Attention.attend(
                columns(q, first, dHead), columns(k, first, dHead),
                columns(v, first, dHead), mask);
            for (int i = 0; i < x.length; i++) {
                System.arraycopy(head.output()[i], 0, merged[i], first,
                                 dHead);
            }
            weights.add(head.weights());
        }
        return new Result(Matrix.multiply(merged, wO), weights);
    }

    // A copy of some columns: those of one head.
    private static double[][] columns(double[][] matrix, int first,
                                      int count) {
        double[][] copy = new double[matrix.length][];
        for (int i = 0; i < matrix.length; i++) {
            copy[i] = Arrays.copyOfRange(matrix[i], first, first + count);
        }
        return copy;
    }
}
