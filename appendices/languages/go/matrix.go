package main

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"strconv"
)

// zeros makes a matrix: a slice of rows.
func zeros(rows, columns int) [][]float64 {
	matrix := make([][]float64, rows)
	for i := range matrix {
		matrix[i] = make([]float64, columns)
	}
	return matrix
}

func multiply(A, B [][]float64) [][]float64 {
	product := zeros(len(A), len(B[0]))
	for i, row := range product {
		for k, other := range B {
			for c, number := range other {
				row[c] += A[i][k] * number
			}
		}
	}
	return product
}

// add returns the sum of two matrices of the same shape.
func add(A, B [][]float64) [][]float64 {
	sum := zeros(len(A), len(A[0]))
	for i, row := range sum {
		for c := range row {
			row[c] = A[i][c] + B[i][c]
		}
	}
	return sum
}

// reader takes one word after another from the input. It keeps the first
// error, so that it is asked for once, at the end.
type reader struct {
	words *bufio.Scanner
	more  bool
	err   error
}

func newReader() *reader {
	words := bufio.NewScanner(os.Stdin)
	words.Split(bufio.ScanWords)
	return &reader{words: words, more: words.Scan()}
}

// fail keeps the error, if it is the first.
func (r *reader) fail(format string, values ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, values...)
	}
}

// number takes the next number; it must be within bounds.
func (r *reader) number(name string,
	low, high float64, whole bool) float64 {
	if r.err != nil {
		return low
	}
	if !r.more {
		r.fail("%s: the input ends too soon", name)
		return low
	}
	word := r.words.Text()
	r.more = r.words.Scan()
	number, err := strconv.ParseFloat(word, 64)
	within := number >= low && number <= high // not for NaN
	if err != nil || !within || whole && number != math.Trunc(number) {
		kind := "number"
		if whole {
			kind = "whole number"
		}
		r.fail("%s: '%s' is not a %s from %g to %g",
			name, word, kind, low, high)
		return low
	}
	return number
}

func (r *reader) size(name string) int {
	return int(r.number(name, 1, 1000, true))
}

func (r *reader) matrix(name string, rows, columns int) [][]float64 {
	matrix := zeros(rows, columns)
	for _, row := range matrix {
		for c := range row {
			row[c] = r.number(name, -1e30, 1e30, false)
		}
	}
	return matrix
}

// mask is true where a query may attend to a key.
func (r *reader) mask(rows, columns int) [][]bool {
	mask := make([][]bool, rows)
	for i := range mask {
		mask[i] = make([]bool, columns)
		for j := range mask[i] {
			mask[i][j] = r.number("mask", 0, 1, true) == 1
		}
	}
	return mask
}

func printMatrix(title string, matrix [][]float64) {
	fmt.Println(title)
	for _, row := range matrix {
		for c, number := range row {
			if c > 0 {
				fmt.Print(" ")
			}
			fmt.Print(number)
		}
		fmt.Println()
	}
}
