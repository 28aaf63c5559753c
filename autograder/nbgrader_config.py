"""nbgrader's configuration for this course. The file of this name in the root of the checkout loads it.

The course folder (source, release, submitted, autograded, feedback, gradebook.db) is `build/course`, or COURSE_DIR.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The graded cells import `autograder`; kernels inherit this environment.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
sys.path.insert(0, str(ROOT))
from autograder.nbgrader_plugins import autograde  # noqa: E402
from autograder.sandbox.limits import Times  # noqa: E402
from course import release  # noqa: E402
from course.folder import GRADEBOOK_URL, course_folder, course_id, gradebook_url  # noqa: E402

c = get_config()  # noqa: F821 - given by traitlets
c.CourseDirectory.course_id = course_id()
c.CourseDirectory.root = str(course_folder())
if os.environ.get(GRADEBOOK_URL):  # else the file in the course folder, even if --course-dir names another
    c.CourseDirectory.db_url = gradebook_url(course_folder())

# The rubric is in the locked question cell, between mark-scheme lines. Students never get it: it is cut on
# release, restored for the instructor when grading, and cut again from the feedback.
c.ClearMarkScheme.enforce_metadata = False
c.ClearSolutions.text_stub = release.ANSWER_HERE
c.GenerateFeedback.preprocessors = [
    "autograder.nbgrader_plugins.preprocessors.DropGradersNote",
    "nbgrader.preprocessors.GetGrades",
    "nbgrader.preprocessors.ClearMarkScheme",
    "nbgrader.preprocessors.ClearHiddenTests",
    "nbconvert.preprocessors.CSSHTMLHeaderPreprocessor",
]
# In formgrader and in feedback, what students wrote is cleaned where it becomes HTML.
c.HTMLExporter.filters = {"markdown2html": "autograder.grading.sanitize.rendered"}

if os.environ.get("AUTOGRADER_STOCK") == "1":
    # nbgrader's own way, for comparison: student code runs with your rights, with access to the hidden tests.
    # No grade depends on a real model, and loading takes time.
    os.environ["ATTNLAB_MODEL"] = os.environ["ATTNLAB_GEMMA"] = ""
    c.Autograde.autograde_preprocessors = [
        "autograder.nbgrader_plugins.preprocessors.ExecuteWithReferences",
        "nbgrader.preprocessors.IgnorePattern",
        "nbconvert.preprocessors.ClearMetadataPreprocessor",
        "nbgrader.preprocessors.LimitOutput",
        "autograder.nbgrader_plugins.preprocessors.SaveGrades",
        "nbgrader.preprocessors.AssignLatePenalties",
        "nbgrader.preprocessors.CheckCellMetadata",
    ]
    c.Execute.timeout = int(Times.cell)
else:
    # Reassembly, jail and evaluator, under the command `nbgrader autograde` and under formgrader's button.
    autograde.install()

# The cost of lateness is in late.csv in the course's folder, if there is one.
c.AssignLatePenalties.plugin_class = "autograder.nbgrader_plugins.late.LateRules"
# `nbgrader zip_collect` collects as `python -m autograder collect` does.
c.ZipCollectApp.extractor_plugin = "autograder.nbgrader_plugins.zipcollect.Collector"
# `nbgrader release_feedback` releases no page of an older grade.
c.ExchangeFactory.release_feedback = "autograder.nbgrader_plugins.feedback.ReleaseCurrentFeedback"
# nbgrader's own table allows names that are formulas.
c.ExportApp.plugin_class = "autograder.nbgrader_plugins.export.Stock"
