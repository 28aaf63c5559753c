package main

type multiHead struct {
	nHeads         int
	wQ, wK, wV, wO [][]float64
}

// forward returns the output (n, d_model) and a map of weights for each
// head.
func (m multiHead) forward(x [][]float64,
	mask [][]bool) (output [][]float64, weights [][][]float64) {
	Q, K, V := multiply(x, m.wQ), multiply(x, m.wK), multiply(x, m.wV)
	dHead := len(x[0]) / m.nHeads
	merged := make([][]float64, len(x)) // of empty rows
	for h := 0; h < m.nHeads; h++ {
		from, to := h*dHead, (h+1)*dHead
		head, seen := attend(columns(Q, from, to), columns(K, from, to),
			columns(V, from, to), mask)
		for i, row := range head {
			merged[i] = append(merged[i], row...)
		}
		weights = append(weights, seen)
	}
	return multiply(merged, m.wO), weights
}

// columns is a view of some columns: its rows share the matrix's memory.
func columns(matrix [][]float64, from, to int) [][]float64 {
	view := make([][]float64, len(matrix))
	for i, row := range matrix {
		view[i] = row[from:to]
	}
	return view
}
