package main

import "math"

// sinusoidalEncoding returns (n, dModel): sines in even columns, cosines
// in odd ones.
func sinusoidalEncoding(n, dModel int) [][]float64 {
	table := zeros(n, dModel)
	for position, row := range table {
		for c := 0; c < dModel; c += 2 {
			share := float64(c) / float64(dModel)
			angle := float64(position) * math.Pow(10000, -share)
			row[c], row[c+1] = math.Sin(angle), math.Cos(angle)
		}
	}
	return table
}
