        scores = []
        for key, may in zip(K, allowed):
            score = 0.0
            for a, b in zip(query, key):
                score += a * b
            scores.append(score / root)
        if not any(allowed):
            continue
        largest = max(scores)
        for j, score in enumerate(scores):
            if allowed[j]:
                row[j] = math.exp(score - largest)
        total = math.fsum(row)
