// Matrices in Java, as arrays of rows: multiplied, read and printed.
import java.util.Scanner;

final class Matrix {
    private static final Scanner INPUT = new Scanner(System.in);

    static double[][] multiply(double[][] a, double[][] b) {
        double[][] product = new double[a.length][b[0].length];
        for (int i = 0; i < a.length; i++) {
            for (int k = 0; k < b.length; k++) {
                for (int c = 0; c < b[k].length; c++) {
                    product[i][c] += a[i][k] * b[k][c];
                }
            }
        }
        return product;
    }

    // The sum of two matrices of the same shape, as a new matrix.
    static double[][] add(double[][] a, double[][] b) {
        double[][] sum = new double[a.length][a[0].length];
        for (int i = 0; i < a.length; i++) {
            for (int c = 0; c < a[i].length; c++) {
                sum[i][c] = a[i][c] + b[i][c];
            }
        }
        return sum;
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
                name + ": '" + word + "' is not a "
                + (whole ? "whole number" : "number")
                + " from " + low + " to " + high);
        }
        return number;
    }

    static int readSize(String name) {
        return (int) read(name, 1, 1000, true);
    }

    static double[][] read(String name, int rows, int columns) {
        double[][] matrix = new double[rows][columns];
        for (double[] row : matrix) {
            for (int c = 0; c < columns; c++) {
                row[c] = read(name, -1e30, 1e30, false);
            }
        }
        return matrix;
    }

    // true where a query may attend to a key.
    static boolean[][] readMask(int rows, int columns) {
        boolean[][] mask = new boolean[rows][columns];
        for (boolean[] row : mask) {
            for (int c = 0; c < columns; c++) {
                row[c] = read("mask", 0, 1, true) == 1;
            }
        }
        return mask;
    }

    static boolean moreInput() {
        return INPUT.hasNext();
    }

    static void print(String title, double[][] matrix) {
        StringBuilder lines = new StringBuilder(title).append('\n');
        for (double[] row : matrix) {
            for (int c = 0; c < row.length; c++) {
                lines.append(c == 0 ? "" : " ").append(row[c]);
            }
            lines.append('\n');
        }
        System.out.print(lines);
    }
}
