// A pre-norm encoder block, in Java.
record EncoderBlock(LayerNorm norm1, MultiHead attention, LayerNorm norm2,
                    FeedForward feedForward) {
    // x: (n, d_model), and so is the result.
    double[][] forward(double[][] x, boolean[][] mask) {
        double[][] heard = attention.forward(norm1.forward(x), mask)
            .output();
        double[][] between = Matrix.add(x, heard);
        double[][] found = feedForward.forward(norm2.forward(between));
        return Matrix.add(between, found);
    }

    record LayerNorm(double[] weight, double[] bias) {
        private static final double EPS = 1e-5;

        // Each row with mean 0 and variance 1, then scaled and shifted.
        double[][] forward(double[][] x) {
            double[][] result = new double[x.length][weight.length];
            for (int i = 0; i < x.length; i++) {
                double mean = 0;
                for (double number : x[i]) {
                    mean += number / x[i].length;
                }
                double variance = 0;
                for (double number : x[i]) {
                    variance += Math.pow(number - mean, 2) / x[i].length;
                }
                double spread = Math.sqrt(variance + EPS);
                for (int c = 0; c < x[i].length; c++) {
                    result[i][c] = (x[i][c] - mean) / spread * weight[c]
                        + bias[c];
                }
            }
            return result;
        }
    }

    record FeedForward(double[][] w1, double[] b1, double[][] w2,
                       double[] b2) {
        // (n, d_model) to (n, d_ff), GELU, and back.
        double[][] forward(double[][] x) {
            double[][] hidden = plus(Matrix.multiply(x, w1), b1);
            for (double[] row : hidden) {
                for (int c = 0; c < row.length; c++) {
                    row[c] = gelu(row[c]);
                }
            }
            return plus(Matrix.multiply(hidden, w2), b2);
        }

        private static double[][] plus(double[][] matrix, double[] bias) {
            for (double[] row : matrix) {
                for (int c = 0; c < row.length; c++) {
                    row[c] += bias[c];
                }
            }
            return matrix;
        }

        private static double gelu(double x) {
            return 0.5 * x * (1 + erf(x / Math.sqrt(2)));
        }

        // Math has no erf. This series has no minus sign, so nothing
        // cancels.
        private static double erf(double x) {
            if (Math.abs(x) > 6) {
                return Math.signum(x);
            }
            double term = x;
            double sum = x;
            for (int n = 1; n < 150; n++) {
                term *= 2 * x * x / (2 * n + 1);
                sum += term;
            }
            return 2 / Math.sqrt(Math.PI) * Math.exp(-x * x) * sum;
        }
    }
}
