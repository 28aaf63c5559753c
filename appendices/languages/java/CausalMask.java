// The mask that hides the future, in Java.
final class CausalMask {
    // Returns (nQ, nK): true up to each query's own position.
    // The last query has the position of the last key.
    static boolean[][] make(int nQ, int nK) {
        boolean[][] mask = new boolean[nQ][nK];
        for (int i = 0; i < nQ; i++) {
            for (int j = 0; j < nK; j++) {
                mask[i][j] = j <= i + nK - nQ;
            }
        }
        return mask;
    }
}
