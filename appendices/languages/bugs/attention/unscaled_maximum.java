            double largest = Double.NEGATIVE_INFINITY;
            for (int j = 0; j < k.length; j++) {
                double score = 0;
                for (int c = 0; c < k[j].length; c++) {
                    score += q[i][c] * k[j][c];
                }
                if (!mask[i][j]) {
                    score = Double.NEGATIVE_INFINITY;
                }
                largest = Math.max(largest, score);
                scores[j] = score / root;
            }
            if (largest == Double.NEGATIVE_INFINITY) {
                continue;
            }
            double total = 0;
            for (int j = 0; j < k.length; j++) {
                weights[i][j] = Math.exp(scores[j] - largest);
