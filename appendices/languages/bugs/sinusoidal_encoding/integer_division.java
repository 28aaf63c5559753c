        for (int c = 0; c < dModel; c += 2) {
            double share = c / dModel;
            double frequency = Math.pow(10000, -share);
