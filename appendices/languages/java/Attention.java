// Scaled dot-product attention with a mask, in Java.
final class Attention {
    record Result(double[][] output, double[][] weights) {}

    // Returns the output (n_q, d_v) and the weights (n_q, n_k).
    static Result attend(double[][] q, double[][] k, double[][] v,
                         boolean[][] mask) {
        double[][] output = new double[q.length][v[0].length];
        double[][] weights = new double[q.length][k.length];
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
        return new Result(output, weights);
    }
}
