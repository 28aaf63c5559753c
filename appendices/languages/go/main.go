// Five programs in Go: the first argument says which.
//
//	go run *.go attention < problem.txt
package main

import (
	"fmt"
	"os"
)

func runAttention(input *reader, causal bool) {
	nQ, nK := input.size("n_q"), input.size("n_k")
	dK, dV := input.size("d_k"), input.size("d_v")
	Q := input.matrix("Q", nQ, dK)
	K := input.matrix("K", nK, dK)
	V := input.matrix("V", nK, dV)
	mask := causalMask(nQ, nK)
	if !causal {
		mask = input.mask(nQ, nK)
	}
	if input.err == nil {
		output, weights := attend(Q, K, V, mask)
		printMatrix("output", output)
		printMatrix("weights", weights)
	}
}

func readHeads(input *reader, dModel, nHeads int) multiHead {
	if dModel%nHeads != 0 {
		input.fail("n_heads: %d does not divide %d", nHeads, dModel)
	}
	return multiHead{
		nHeads: nHeads,
		wQ:     input.matrix("W_q", dModel, dModel),
		wK:     input.matrix("W_k", dModel, dModel),
		wV:     input.matrix("W_v", dModel, dModel),
		wO:     input.matrix("W_o", dModel, dModel),
	}
}

func readNorm(input *reader, name string, dModel int) layerNorm {
	rows := input.matrix(name, 2, dModel)
	return layerNorm{weight: rows[0], bias: rows[1]}
}

func runMultiHead(input *reader) {
	n, dModel := input.size("n"), input.size("d_model")
	nHeads := input.size("n_heads")
	x := input.matrix("x", n, dModel)
	heads := readHeads(input, dModel, nHeads)
	mask := input.mask(n, n)
	if input.err == nil {
		output, weights := heads.forward(x, mask)
		printMatrix("output", output)
		for _, seen := range weights {
			printMatrix("weights", seen)
		}
	}
}

func runSinusoidalEncoding(input *reader) {
	n, dModel := input.size("n"), input.size("d_model")
	if dModel%2 != 0 {
		input.fail("d_model: %d is odd", dModel)
	}
	if input.err == nil {
		printMatrix("encoding", sinusoidalEncoding(n, dModel))
	}
}

func runEncoderBlock(input *reader) {
	n, dModel := input.size("n"), input.size("d_model")
	nHeads, dFF := input.size("n_heads"), input.size("d_ff")
	x := input.matrix("x", n, dModel)
	block := encoderBlock{
		norm1:     readNorm(input, "norm_1", dModel),
		attention: readHeads(input, dModel, nHeads),
		norm2:     readNorm(input, "norm_2", dModel),
		feedForward: feedForward{
			w1: input.matrix("W_1", dModel, dFF),
			b1: input.matrix("b_1", 1, dFF)[0],
			w2: input.matrix("W_2", dFF, dModel),
			b2: input.matrix("b_2", 1, dModel)[0],
		},
	}
	mask := input.mask(n, n)
	if input.err == nil {
		printMatrix("output", block.forward(x, mask))
	}
}

var run = map[string]func(*reader){
	"attention":           func(r *reader) { runAttention(r, false) },
	"multi_head":          runMultiHead,
	"sinusoidal_encoding": runSinusoidalEncoding,
	"encoder_block":       runEncoderBlock,
	"causal_mask":         func(r *reader) { runAttention(r, true) },
}

func main() {
	name := ""
	if len(os.Args) == 2 {
		name = os.Args[1]
	}
	input := newReader()
	solve, known := run[name]
	if !known {
		input.fail("'%s' is not the name of a program", name)
	}
	for first := true; input.err == nil && (first || input.more); {
		first = false
		solve(input)
	}
	if input.err != nil {
		fmt.Fprintln(os.Stderr, input.err)
		os.Exit(1)
	}
}
