            variance = sum((a - mean) ** 2 for a in row) / len(row)
            spread = math.sqrt(variance) + EPS
            result.append([(a - mean) / spread * w + b for a, w, b
