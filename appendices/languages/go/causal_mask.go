package main

// causalMask returns (nQ, nK): true up to each query's own position.
// The last query has the position of the last key.
func causalMask(nQ, nK int) [][]bool {
	mask := make([][]bool, nQ)
	for i := range mask {
		mask[i] = make([]bool, nK)
		for j := range mask[i] {
			mask[i][j] = j <= i+nK-nQ
		}
	}
	return mask
}
