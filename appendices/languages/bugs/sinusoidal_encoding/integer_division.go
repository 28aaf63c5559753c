		for c := 0; c < dModel; c += 2 {
			share := float64(c / dModel)
			angle := float64(position) * math.Pow(10000, -share)
