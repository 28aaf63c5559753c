// Scaled dot-product attention with a mask, in Java.
//
//     javac Attention.java && java Attention < problem.txt
import java.util.Scanner;

final class Attention {
    private static final Scanner INPUT = new Scanner(System.in);

    // A matrix is an array of rows. Output and weights come in as zeros.
    static void attend(double[][] q, double[][] k, double[][] v,
                       boolean[][] mask, double[][] output,
                       double[][] weights) {
        double root = Math.sqrt(k[0].length);
        for (int i = 0; i < q.length; i++) {
            // 1. Scaled scores; minus infinity where the mask says no.
            // 2. Their maximum. A query with no key keeps its zeros.
            double[] scores = new double[k.length];
            double largest = Double.NEGATIVE_INFINITY;
            for (int j = 0; j < k.length; j++) {
                double score = 0;
                for (int c = 0; c < k[j].length; c++) {
                    score += q[i][c] * k[j][c];
                }
                scores[j] = mask[i][j] ? score / root
                                       : Double.NEGATIVE_INFINITY;
                largest = Math.max(largest, scores[j]);
            }
            if (largest == Double.NEGATIVE_INFINITY) {
                continue;
            }
            // 3. Exponentials and their total. Math.exp(-infinity) is 0.
            double total = 0;
            for (int j = 0; j < k.length; j++) {
                weights[i][j] = Math.exp(scores[j] - largest);
                total += weights[i][j];
            }
            // 4. Weights, and the blend of the values.
            for (int j = 0; j < k.length; j++) {
                weights[i][j] /= total;
                for (int c = 0; c < v[j].length; c++) {
                    output[i][c] += weights[i][j] * v[j][c];
                }
            }
        }
    }

    // Take the next number of the input; it must be within bounds.
    private static double read(String name, double low, double high,
                               boolean whole) {
        if (!INPUT.hasNext()) {
            throw new IllegalArgumentException(
                name + ": the input ends too soon");
        }
        String word = INPUT.next();
        double number;
        try {
            number = Double.parseDouble(word);
        } catch (NumberFormatException error) {
            number = Double.NaN;
        }
        boolean within = number >= low && number <= high; // not for NaN
        if (!within || whole && number != Math.rint(number)) {
            throw new IllegalArgumentException(
                name + ": '" + word + "' is no "
                + (whole ? "whole number" : "number")
                + " from " + low + " to " + high);
        }
        return number;
    }

    private static int readSize(String name) {
        return (int) read(name, 1, 1000, true);
    }

    private static double[][] readMatrix(String name, int rows,
                                         int columns) {
        double[][] matrix = new double[rows][columns];
        for (double[] row : matrix) {
            for (int c = 0; c < columns; c++) {
                row[c] = read(name, -1e150, 1e150, false);
            }
        }
        return matrix;
    }

    private static void print(String title, double[][] matrix) {
        StringBuilder lines = new StringBuilder(title).append('\n');
        for (double[] row : matrix) {
            for (int c = 0; c < row.length; c++) {
                lines.append(c == 0 ? "" : " ").append(row[c]);
            }
            lines.append('\n');
        }
        System.out.print(lines);
    }

    private static void solve() {
        int nQ = readSize("n_q");
        int nK = readSize("n_k");
        int dK = readSize("d_k");
        int dV = readSize("d_v");
        double[][] q = readMatrix("Q", nQ, dK);
        double[][] k = readMatrix("K", nK, dK);
        double[][] v = readMatrix("V", nK, dV);
        boolean[][] mask = new boolean[nQ][nK];
        for (boolean[] row : mask) {
            for (int j = 0; j < nK; j++) {
                row[j] = read("mask", 0, 1, true) == 1;
            }
        }
        double[][] output = new double[nQ][dV];
        double[][] weights = new double[nQ][nK];
        attend(q, k, v, mask, output, weights);
        print("output", output);
        print("weights", weights);
    }

    public static void main(String[] arguments) {
        try {
            do {
                solve();
            } while (INPUT.hasNext());
        } catch (IllegalArgumentException error) {
            System.err.println("attention: " + error.getMessage());
            System.exit(1);
        }
    }
}
