	dHead := len(x[0]) / m.nHeads
	merged := zeros(len(x), len(x[0]))
	for h := 0; h < m.nHeads; h++ {
