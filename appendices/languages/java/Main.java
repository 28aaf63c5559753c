// Five programs in Java: the first argument says which.
//
//     javac *.java
//     java Main attention < problem.txt
final class Main {
    private static void runAttention(boolean causal) {
        int nQ = Matrix.readSize("n_q");
        int nK = Matrix.readSize("n_k");
        int dK = Matrix.readSize("d_k");
        int dV = Matrix.readSize("d_v");
        double[][] q = Matrix.read("Q", nQ, dK);
        double[][] k = Matrix.read("K", nK, dK);
        double[][] v = Matrix.read("V", nK, dV);
        boolean[][] mask = causal ? CausalMask.make(nQ, nK)
                                  : Matrix.readMask(nQ, nK);
        Attention.Result result = Attention.attend(q, k, v, mask);
        Matrix.print("output", result.output());
        Matrix.print("weights", result.weights());
    }

    private static MultiHead readHeads(int dModel, int nHeads) {
        if (dModel % nHeads != 0) {
            throw new IllegalArgumentException(
                "n_heads: " + nHeads + " does not divide " + dModel);
        }
        return new MultiHead(nHeads,
            Matrix.read("W_q", dModel, dModel),
            Matrix.read("W_k", dModel, dModel),
            Matrix.read("W_v", dModel, dModel),
            Matrix.read("W_o", dModel, dModel));
    }

    private static EncoderBlock.LayerNorm readNorm(String name,
                                                   int dModel) {
        double[][] rows = Matrix.read(name, 2, dModel);
        return new EncoderBlock.LayerNorm(rows[0], rows[1]);
    }

    private static void runMultiHead() {
        int n = Matrix.readSize("n");
        int dModel = Matrix.readSize("d_model");
        int nHeads = Matrix.readSize("n_heads");
        double[][] x = Matrix.read("x", n, dModel);
        MultiHead heads = readHeads(dModel, nHeads);
        MultiHead.Result result = heads.forward(x, Matrix.readMask(n, n));
        Matrix.print("output", result.output());
        for (double[][] weights : result.weights()) {
            Matrix.print("weights", weights);
        }
    }

    private static void runSinusoidalEncoding() {
        int n = Matrix.readSize("n");
        int dModel = Matrix.readSize("d_model");
        if (dModel % 2 != 0) {
            throw new IllegalArgumentException(
                "d_model: " + dModel + " is odd");
        }
        Matrix.print("encoding", SinusoidalEncoding.encode(n, dModel));
    }

    private static void runEncoderBlock() {
        int n = Matrix.readSize("n");
        int dModel = Matrix.readSize("d_model");
        int nHeads = Matrix.readSize("n_heads");
        int dFf = Matrix.readSize("d_ff");
        double[][] x = Matrix.read("x", n, dModel);
        EncoderBlock block = new EncoderBlock(
            readNorm("norm_1", dModel),
            readHeads(dModel, nHeads),
            readNorm("norm_2", dModel),
            new EncoderBlock.FeedForward(
                Matrix.read("W_1", dModel, dFf),
                Matrix.read("b_1", 1, dFf)[0],
                Matrix.read("W_2", dFf, dModel),
                Matrix.read("b_2", 1, dModel)[0]));
        Matrix.print("output", block.forward(x, Matrix.readMask(n, n)));
    }

    private static void run(String name) {
        switch (name) {
            case "attention" -> runAttention(false);
            case "multi_head" -> runMultiHead();
            case "sinusoidal_encoding" -> runSinusoidalEncoding();
            case "encoder_block" -> runEncoderBlock();
            case "causal_mask" -> runAttention(true);
            default -> throw new IllegalArgumentException(
                "'" + name + "' is not the name of a program");
        }
    }

    public static void main(String[] arguments) {
        try {
            do {
                run(arguments.length == 1 ? arguments[0] : "");
            } while (Matrix.moreInput());
        } catch (IllegalArgumentException error) {
            System.err.println(error.getMessage());
            System.exit(1);
        }
    }
}
