"""A rule for late submissions, to see it applied the same way by this grader and by stock nbgrader."""

from nbgrader.plugins import BasePlugin


class TenPercentADay(BasePlugin):
    """A tenth of the score for each day begun. After a week more than there is, which nbgrader cuts to the score."""

    def late_submission_penalty(self, student_id, score, total_seconds_late):
        if total_seconds_late <= 600:
            return None
        days = -(-total_seconds_late // 86400)
        return score * 0.1 * days if days <= 7 else score + 1
