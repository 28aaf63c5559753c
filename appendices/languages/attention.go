// Scaled dot-product attention with a mask, in Go.
//
//	go run attention.go < problem.txt
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

// attend returns the output (n_q, d_v) and the weights (n_q, n_k).
// The mask holds 1 where a query may attend to a key, and 0 elsewhere.
func attend(Q, K, V, mask [][]float64) (output, weights [][]float64) {
	output = zeros(len(Q), len(V[0]))
	weights = zeros(len(Q), len(K))
	root := math.Sqrt(float64(len(K[0])))
	for i, query := range Q {
		// 1. Scaled scores; minus infinity where the mask says no.
		// 2. Their maximum. A query with no key keeps its zeros.
		scores := make([]float64, len(K))
		largest := math.Inf(-1)
		for j, key := range K {
			scores[j] = math.Inf(-1)
			if mask[i][j] == 1 {
				score := 0.0
				for c := range key {
					score += query[c] * key[c]
				}
				scores[j] = score / root
			}
			largest = math.Max(largest, scores[j])
		}
		if math.IsInf(largest, -1) {
			continue
		}
		// 3. Exponentials and their total. math.Exp of -Inf is 0.
		row, total := weights[i], 0.0
		for j, score := range scores {
			row[j] = math.Exp(score - largest)
			total += row[j]
		}
		// 4. Weights, and the blend of the values.
		for j, value := range V {
			row[j] /= total
			for c, number := range value {
				output[i][c] += row[j] * number
			}
		}
	}
	return output, weights
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

// number takes the next number; it must be within bounds.
func (r *reader) number(name string,
	low, high float64, whole bool) float64 {
	if r.err != nil {
		return low
	}
	if !r.more {
		r.err = fmt.Errorf("%s: the input ends too soon", name)
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
		r.err = fmt.Errorf("%s: '%s' is no %s from %g to %g",
			name, word, kind, low, high)
		return low
	}
	return number
}

func (r *reader) size(name string) int {
	return int(r.number(name, 1, 1000, true))
}

func (r *reader) matrix(name string, rows, columns int,
	low, high float64, whole bool) [][]float64 {
	matrix := zeros(rows, columns)
	for _, row := range matrix {
		for c := range row {
			row[c] = r.number(name, low, high, whole)
		}
	}
	return matrix
}

func print(title string, matrix [][]float64) {
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

func main() {
	input := newReader()
	for first := true; first || input.more; first = false {
		nQ, nK := input.size("n_q"), input.size("n_k")
		dK, dV := input.size("d_k"), input.size("d_v")
		Q := input.matrix("Q", nQ, dK, -1e150, 1e150, false)
		K := input.matrix("K", nK, dK, -1e150, 1e150, false)
		V := input.matrix("V", nK, dV, -1e150, 1e150, false)
		mask := input.matrix("mask", nQ, nK, 0, 1, true)
		if input.err != nil {
			fmt.Fprintln(os.Stderr, "attention:", input.err)
			os.Exit(1)
		}
		output, weights := attend(Q, K, V, mask)
		print("output", output)
		print("weights", weights)
	}
}
