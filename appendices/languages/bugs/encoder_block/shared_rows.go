func (l layerNorm) forward(x [][]float64) [][]float64 {
	result := append([][]float64{}, x...)
	for i, row := range x {
