"""One sentence out of three pages of Spark (docs/PIPELINE.md, "When it fails")."""

import io

import pytest

from bookie.base import errors
from pyspark_bookkeeper import failures

# As Spark 4.3 words it when a Python task fails, shortened.
WRAPPED = """An error occurred while calling o63.count.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times: \
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "pyspark/worker.py", line 3000, in main
    process()
  File "pyspark_bookkeeper/batch.py", line 90, in read
    raise failure
bookie.base.errors.DigestMismatch: ledger 7 entry 12: the digest matches on no replica

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:600)
"""


def test_our_error_is_its_own_sentence() -> None:
    assert failures.sentence(errors.LedgerMissing("ledger 7 does not exist")) == "ledger 7 does not exist"


def test_our_error_is_found_under_the_one_it_caused() -> None:
    failed = RuntimeError("a task failed")
    failed.__context__ = errors.Unauthorized("ledger 7: the password is wrong")

    assert failures.sentence(failed) == "ledger 7: the password is wrong"


def test_our_error_is_found_in_what_java_made_of_it() -> None:
    assert failures.sentence(RuntimeError(WRAPPED)) == "ledger 7 entry 12: the digest matches on no replica"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.", "no Java 17 or newer"),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11, PySpark",
            "the workers run Python 3.9 and the driver 3.11: set PYSPARK_PYTHON",
        ),
        ("x\nModuleNotFoundError: No module named 'pyarrow'\n", "lacks the module pyarrow: set PYSPARK_PYTHON"),
        ('java.io.IOException: Cannot run program "/none/python": error=2', "cannot run /none/python"),
        (
            "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: bookkeeper. Make sure the provider",
            "does not know the source bookkeeper",
        ),
    ],
)
def test_what_spark_cannot_do_is_told_with_what_to_do(text: str, said: str) -> None:
    told = failures.sentence(RuntimeError(text))

    assert said in told
    assert "\n" not in told


def test_an_unknown_error_is_its_class_and_first_line() -> None:
    assert failures.sentence(ValueError("first\nsecond")) == "ValueError: first"
    assert failures.sentence(ValueError()) == "ValueError: no reason was given"


def test_a_program_that_fails_says_one_sentence_and_ends_with_1() -> None:
    stream = io.StringIO()

    with pytest.raises(SystemExit) as caught, failures.told("pipeline", stream):
        raise errors.MetadataError("the metadata store at 127.0.0.1:1 did not answer")

    assert caught.value.code == 1
    assert stream.getvalue() == "pipeline: the metadata store at 127.0.0.1:1 did not answer\n"


def test_a_mistake_in_a_program_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError), failures.told("pipeline"):
        _ = 1 // 0
