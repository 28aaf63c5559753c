package main

import "math"

const eps = 1e-5

type layerNorm struct {
	weight, bias []float64
}

// forward gives each row mean 0 and variance 1, then scales and shifts.
func (l layerNorm) forward(x [][]float64) [][]float64 {
	result := zeros(len(x), len(x[0]))
	for i, row := range x {
		width := float64(len(row))
		mean, variance := 0.0, 0.0
		for _, number := range row {
			mean += number / width
		}
		for _, number := range row {
			variance += (number - mean) * (number - mean) / width
		}
		spread := math.Sqrt(variance + eps)
		for c, number := range row {
			result[i][c] = (number-mean)/spread*l.weight[c] + l.bias[c]
		}
	}
	return result
}

type feedForward struct {
	w1, w2 [][]float64
	b1, b2 []float64
}

// forward goes from (n, d_model) to (n, d_ff), through GELU, and back.
func (f feedForward) forward(x [][]float64) [][]float64 {
	hidden := multiply(x, f.w1)
	for _, row := range hidden {
		for c := range row {
			row[c] = gelu(row[c] + f.b1[c])
		}
	}
	result := multiply(hidden, f.w2)
	for _, row := range result {
		for c := range row {
			row[c] += f.b2[c]
		}
	}
	return result
}

func gelu(x float64) float64 {
	return 0.5 * x * (1 + math.Erf(x/math.Sqrt2))
}

type encoderBlock struct {
	norm1, norm2 layerNorm
	attention    multiHead
	feedForward  feedForward
}

// forward takes x (n, d_model) and returns the same shape.
func (b encoderBlock) forward(x [][]float64, mask [][]bool) [][]float64 {
	heard, _ := b.attention.forward(b.norm1.forward(x), mask)
	x = add(x, heard)
	return add(x, b.feedForward.forward(b.norm2.forward(x)))
}
