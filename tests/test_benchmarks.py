"""Benchmarks: rows from files, prompts, splits, ids, and scores that let right answers pass and wrong ones fail."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import rows_for_tests as rows
from workers.errors import UserError
from workers.tasks import BENCHMARKS, get_task, samples_digest
from workers.tasks.sample import Sample, Task


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return rows.write_all(tmp_path_factory.mktemp("data"))


def first(task: Task) -> Sample:
    return task.samples("test", 0, 1)[0]


def test_ids_name_the_published_row_and_the_order_is_that_of_the_file(data):
    def ids(name: str, split: str = "test") -> list[str]:
        return [sample.id for sample in get_task(name, data).samples(split, 0, 10)]

    assert ids("gsm8k") == ["gsm8k/test/0", "gsm8k/test/1", "gsm8k/test/2"]
    assert ids("mbpp") == ["mbpp/test/11", "mbpp/test/12", "mbpp/test/13"]
    assert ids("mbpp", "pool") == ["mbpp/train/601", "mbpp/train/602"]
    assert ids("humaneval") == ["HumanEval/0", "HumanEval/1", "HumanEval/2"]
    assert ids("math500") == ["math500/test/0", "math500/test/1", "math500/test/2"]
    assert ids("ifeval") == ["ifeval/1000", "ifeval/1001", "ifeval/1002"]
    task = get_task("gsm8k", data)
    assert task.samples("test", 1, 2) == task.samples("test", 0, 3)[1:]


def test_calibration_begins_behind_the_first_hundred(tmp_path):
    path = str(rows.write_jsonl(tmp_path / "mbpp.jsonl", rows.mbpp(range(1, 200))))
    task = get_task("mbpp", {"mbpp": path})
    assert [sample.id for sample in task.samples("calibration", 0, 2)] == ["mbpp/test/111", "mbpp/test/112"]
    assert task.samples("calibration", 0, 500) == task.samples("test", 100, 500)


def test_a_file_for_each_published_split(tmp_path):
    files = {
        "test": str(rows.write_jsonl(tmp_path / "a.jsonl", rows.gsm8k(2))),
        "train": str(rows.write_jsonl(tmp_path / "b.jsonl", rows.gsm8k(5))),
    }
    task = get_task("gsm8k", {"gsm8k": files})
    assert [sample.id for sample in task.samples("pool", 3, 9)] == ["gsm8k/train/3", "gsm8k/train/4"]
    with pytest.raises(UserError, match=r"needs its train rows.*\{gsm8k: \{test: .*a.jsonl, train: FILE\}\}"):
        get_task("gsm8k", {"gsm8k": files["test"]}).samples("pool", 0, 1)


@pytest.mark.parametrize("name", rows.NAMES)
def test_digest_is_that_of_the_content_in_any_format_and_place(name, data, tmp_path):
    lines = Path(data[name]).read_text().splitlines()
    packed = tmp_path / "elsewhere.jsonl.gz"
    packed.write_bytes(gzip.compress(("\ufeff" + "\r\n\n".join(lines)).encode()))
    table = tmp_path / "table.parquet"
    pq.write_table(pa.Table.from_pylist([json.loads(line) for line in lines]), table)
    places = (data[name], str(packed), str(table))
    assert len({samples_digest(get_task(name, {name: place}), "test", 0, 3) for place in places}) == 1
    changed = tmp_path / "changed.jsonl"
    changed.write_text("\n".join(lines).replace("Sum of", "Product of").replace("600", "500").replace("x + 1", "x - 1"))
    changed.write_text(changed.read_text().replace("five words", "nine words").replace("number 0", "number 7"))
    changed.write_text(changed.read_text().replace("a function", "some function"))
    assert samples_digest(get_task(name, {name: str(changed)}), "test", 0, 3) != samples_digest(
        get_task(name, data), "test", 0, 3
    )


@pytest.mark.parametrize(
    "content, problem",
    [
        (b'{"question": "a", "answer": "#### 1"}\n{"question": 3', r"file.jsonl:2: not a line of JSON"),
        (b'{"question": "a", "answer": "#### 1"}\n[1]', r"file.jsonl:2: a row is a JSON object, got \[1\]"),
        (b'\n{"question": "a"}', r"file.jsonl:2: no field 'answer', which 'gsm8k' needs; the row has question"),
        (b'{"question": "a", "answer": 7}', r"file.jsonl:1: field 'answer' should be text, got 7"),
        (b'{"question": "a", "answer": "seven"}', r"file.jsonl:1: the answer has no '#### NUMBER'"),
        (b'{"question": "a", "answer": "#### 1"}\n{"question": "\xe9"}', r"file.jsonl:2: not UTF-8"),
        ('{"question": "é"}'.encode("utf-16"), r"file.jsonl:1: not UTF-8"),
        (b" \n\n", r"file.jsonl: the file has no rows"),
        (None, r"file.jsonl: no such file; 'gsm8k' reads it"),
    ],
)
def test_a_bad_file_is_one_clear_line(content, problem, tmp_path):
    path = tmp_path / "file.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=problem) as caught:
        get_task("gsm8k", {"gsm8k": str(path)}).samples("test", 0, 1)
    assert "\n" not in str(caught.value)


def test_other_bad_files(tmp_path, data):
    (tmp_path / "table.parquet").write_bytes(b"PAR1 but not really")
    (tmp_path / "data.csv").write_text("question,answer\n")
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(b'{"question": "a"}\n' * 50)[:-12])
    for name, problem in (
        ("table.parquet", "not a Parquet file"),
        ("data.csv", "reads a .jsonl"),
        ("cut.jsonl.gz", "cannot be read"),
    ):
        with pytest.raises(UserError, match=problem):
            get_task("gsm8k", {"gsm8k": str(tmp_path / name)}).samples("test", 0, 1)
    twice = rows.write_jsonl(tmp_path / "twice.jsonl", rows.humaneval(2) + rows.humaneval(1))
    with pytest.raises(UserError, match="twice.jsonl:3: the same id as at .*twice.jsonl:1: 'HumanEval/0'"):
        get_task("humaneval", {"humaneval": str(twice)}).samples("test", 0, 1)
    lacking = rows.write_jsonl(tmp_path / "lacking.jsonl", rows.mbpp((1, 2, 4, 11)))
    with pytest.raises(UserError, match="its prompt rows lack 3"):
        get_task("mbpp", {"mbpp": str(lacking)}).samples("test", 0, 1)
    untrained = rows.write_jsonl(tmp_path / "untrained.jsonl", rows.mbpp(range(1, 12)))
    with pytest.raises(UserError, match="no train rows of 'mbpp' in it"):
        get_task("mbpp", {"mbpp": str(untrained)}).samples("pool", 0, 1)
    with pytest.raises(UserError, match="'math500' has no pool samples, only calibration and test"):
        get_task("math500", data).samples("pool", 0, 1)
    odd = rows.ifeval()
    odd[1]["instruction_id_list"][0] = "punctuation:no_dots"
    with pytest.raises(UserError, match="odd.jsonl:2: the instruction 'punctuation:no_dots' is none of the 25 kinds"):
        get_task("ifeval", {"ifeval": str(rows.write_jsonl(tmp_path / "odd.jsonl", odd))}).samples("test", 0, 1)


def test_the_hub_is_read_by_datasets_and_its_absence_is_one_clear_line(tmp_path, data):
    """A folder stands for a set; in a process of its own, since the hub's client reads the environment on import."""
    (tmp_path / "set").mkdir()
    rows.write_jsonl(tmp_path / "set/test.jsonl", rows.gsm8k())
    code = """if True:
        import sys
        from dataclasses import replace
        from workers.tasks import get_task, samples_digest
        from workers.tasks.gsm8k import GSM8K
        from workers.tasks.rows import Hub
        task = replace(GSM8K, hub=Hub(sys.argv[1], None, {"test": "test"})).task()
        print(samples_digest(task, "test", 0, 3))
        get_task("gsm8k").samples("test", 0, 1)
    """
    env = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path), "PYTHONPATH": str(Path(__file__).parent.parent)}
    ran = subprocess.run([sys.executable, "-c", code, str(tmp_path / "set")], env=env, capture_output=True, text=True)
    assert ran.stdout.strip() == samples_digest(get_task("gsm8k", data), "test", 0, 3), ran.stderr
    last = ran.stderr.strip().splitlines()[-1]
    assert "openai/gsm8k" in last and str(tmp_path) in last and "name a local file under data:" in last, ran.stderr


def test_prompts(data):
    shown = first(get_task("mbpp", data)).prompt
    assert shown.count("You are an expert Python programmer, and here is your task:") == 4
    assert shown.count("[DONE]") == 3 and shown.endswith("assert add_11(-11) == 0\n[BEGIN]\n")
    assert "def add_2(x):\n    return x + 2\n[DONE]\n\n" in shown and "\r" not in shown
    assert [f"add_{n}(" in shown for n in (1, 2, 3, 4, 5)] == [False, True, True, True, False]
    assert "####" in first(get_task("gsm8k", data)).prompt
    assert "\\boxed{}" in first(get_task("math500", data)).prompt
    sample = first(get_task("humaneval", data))
    assert f"```python\n{sample.reference['prompt'].strip()}\n```" in sample.prompt
    assert first(get_task("ifeval", data)).prompt == rows.ifeval()[0]["prompt"]


@pytest.mark.parametrize(
    "output, correct, strict, flexible",
    [
        (rows.gsm8k()[0]["answer"], True, True, True),
        ("So 1,200 rolls.", True, False, True),
        ("#### 1200", True, True, True),
        ("#### $1,200.", True, False, True),
        ("#### 1200.00", True, False, False),
        ("#### 1200\nQuestion: what is 5 + 5?\n#### 10", True, True, True),
        ("#### 1200 rolls, that is 2 trays", True, True, False),
        ("2 trays make 1201", False, False, False),
        ("#### -1200", False, False, False),
        ("####", False, False, False),
        ("", False, False, False),
        ("....", False, False, False),
    ],
)
def test_gsm8k_scores(data, output, correct, strict, flexible):
    task = get_task("gsm8k", data)
    score = task.score(first(task), output)
    assert (score.correct, score.metrics) == (correct, {"strict": strict, "flexible": flexible})


def test_humaneval_takes_continuations_and_whole_functions(data):
    task = get_task("humaneval", data)
    for sample, row in zip(task.samples("test", 0, 2), rows.humaneval()):
        body = row["canonical_solution"]
        whole = row["prompt"].split("\n\n\n")[-1] + body
        assert task.score(sample, body).correct
        assert task.score(sample, body + "\n\ndef other(:\n").correct
        assert task.score(sample, f"Here it is:\n```python\n{whole}```\nIt adds them up.").correct
        assert task.score(sample, f"```\n{whole}").correct
        assert task.score(sample, whole).correct
        assert not task.score(sample, body.replace("result = ", "result = 1 + ")).correct
        assert not task.score(sample, f"```python\n{whole.replace('- 1', '- 2')}\n```").correct
        assert not task.score(sample, body.lstrip()).correct
    for output in (
        "",
        "    raise SystemExit(0)\n",
        "    import os; os._exit(0)\n",
        "```python\nraise SystemExit(0)\n```",
    ):
        assert not task.score(sample, output).correct


def test_mbpp_runs_the_code_before_its_setup(data):
    task = get_task("mbpp", data)
    for sample, number in zip(task.samples("test", 0, 2), (11, 12)):
        code = f"def add_{number}(x):\n    return x + {number}"
        assert task.score(sample, f"{code}\n[DONE]\n\nYou are an expert\n[BEGIN]\nwrong").correct
        assert task.score(sample, f"[BEGIN]\n{code}\n[DONE]").correct
        assert task.score(sample, f"Sure!\n```python\n{code}\n```").correct
        assert not task.score(sample, code.replace("+", "-")).correct
        assert not task.score(sample, f"{code}\nraise SystemExit(0)").correct
        assert not task.score(sample, "[DONE]\n" + code).correct


@pytest.mark.parametrize(
    "answer, output, correct, exact",
    [
        ("\\frac{3}{4}", "so \\boxed{\\dfrac34}.", True, True),
        ("\\frac{3}{4}", "\\boxed{0.75}", True, False),
        ("\\frac{3}{4}", "\\boxed{1} no, \\boxed{3/4}", True, True),
        ("\\frac{3}{4}", "\\boxed{3/4} no, \\boxed{1}", False, False),
        ("\\frac{3}{4}", "The answer is 3/4.", False, False),
        ("\\frac{3}{4}", "\\boxed{\\frac{3}{4}", False, False),
        ("12", "\\boxed{12\\text{ cm}}", True, True),
        ("12", "\\boxed{x = 12}", True, True),
        ("12", "\\boxed{12.5}", False, False),
        ("1,200", "\\boxed{1200}", True, True),
        ("(1, 2)", "\\boxed{(1,2)}", True, True),
        ("(1, 2)", "\\boxed{(2,1)}", False, False),
        ("2x+1", "\\boxed{1+2x}", True, False),
        ("90^\\circ", "$\\boxed{90}$", True, True),
        ("\\text{Evelyn}", "\\boxed{Evelyn}", True, True),
        ("\\sqrt{2}", "\\boxed{\\sqrt2}", True, True),
        ("5", "\\boxed{" + "9^" * 400 + "9}", False, False),
    ],
)
def test_math500_scores(tmp_path, answer, output, correct, exact):
    path = str(rows.write_jsonl(tmp_path / "math.jsonl", rows.math500([answer])))
    task = get_task("math500", {"math500": path})
    score = task.score(first(task), output)
    assert (score.correct, score.metrics["exact_match"]) == (correct, exact)


def test_math500_solutions_pass(data):
    task = get_task("math500", data)
    for sample, row in zip(task.samples("test", 0, 3), rows.math500()):
        assert task.score(sample, row["solution"]).correct


def test_only_the_tasks_that_run_code_say_so():
    assert {name for name, benchmark in BENCHMARKS.items() if benchmark.executes_code} == {"humaneval", "mbpp"}


def test_benchmarks_read_and_score_without_model_libraries(data):
    code = (
        "import sys; from workers.tasks import get_task; task = get_task('gsm8k', {'gsm8k': sys.argv[1]});"
        "print(task.score(task.samples('test', 0, 1)[0], '#### 1200').correct,"
        "{'torch', 'transformers', 'datasets', 'pyarrow', 'sympy', 'numpy'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code, data["gsm8k"]], capture_output=True, text=True)
    assert ran.stdout.strip() == "True set()", ran.stderr
