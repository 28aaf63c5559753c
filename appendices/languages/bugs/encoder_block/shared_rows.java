        double[][] forward(double[][] x) {
            double[][] result = x.clone();
            for (int i = 0; i < x.length; i++) {
