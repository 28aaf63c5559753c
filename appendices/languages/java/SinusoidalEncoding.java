// Sines and cosines that tell positions apart, in Java.
final class SinusoidalEncoding {
    // Returns (n, dModel): sines in even columns, cosines in odd ones.
    static double[][] encode(int n, int dModel) {
        double[][] table = new double[n][dModel];
        for (int c = 0; c < dModel; c += 2) {
            double share = (double) c / dModel;
            double frequency = Math.pow(10000, -share);
            for (int position = 0; position < n; position++) {
                double angle = position * frequency;
                table[position][c] = Math.sin(angle);
                table[position][c + 1] = Math.cos(angle);
            }
        }
        return table;
    }
}
