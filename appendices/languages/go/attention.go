package main

import "math"

// attend returns the output (n_q, d_v) and the weights (n_q, n_k).
func attend(Q, K, V [][]float64,
	mask [][]bool) (output, weights [][]float64) {
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
			if mask[i][j] {
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
