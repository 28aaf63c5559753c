		largest := math.Inf(-1)
		for j, key := range K {
			scores[j] = math.Inf(-1)
			if mask[i][j] {
				score := 0.0
				for c := range key {
					score += query[c] * key[c]
				}
				largest = math.Max(largest, score)
				scores[j] = score / root
			}
		}
		if math.IsInf(largest, -1) {
			continue
		}
		row, total := weights[i], 0.0
		for j, score := range scores {
			row[j] = math.Exp(score - largest)
