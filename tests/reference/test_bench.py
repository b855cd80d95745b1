"""The programs of tests/bench run, refuse what they do not know, and write what a reader of their JSON expects. No
timing is judged."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

BENCH = pathlib.Path(__file__).resolve().parents[1] / "bench"
SMALL = ["--width", 64, "--height", 64, "--threads", 2]
NETWORKS = ["--channels", "32,64", "--vae", "32,32,64"]
DEPTHS = ["--layers", 1, "--vae-layers", 1, "--clip-width", 32, "--clip-layers", 1, "--clip-image", 32, "--clip-patch",
          16, "--context", 32]

sys.path.insert(0, str(BENCH))
import compare  # noqa: E402, of tests/bench


def run(*command):
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
    return subprocess.run([str(c) for c in command], env=environment, capture_output=True, text=True)


def script(name, workshop, *arguments):
    return run(sys.executable, BENCH / name, "--build", workshop.build, *SMALL, *arguments)


def content(done, file, statuses=(0,)):
    """The JSON that a run wrote, with the machine checked."""
    assert done.returncode in statuses, done.stdout + done.stderr
    result = json.loads(file.read_text())
    assert result["processor"] and result["processor"] in done.stdout
    assert (result["threads"], result["wait_policy"]) == (2, "passive")
    return result


def binary(name, workshop):
    return workshop.build / "tests" / "bench" / name


def test_stages_are_timed_in_both_types(workshop, tmp_path):
    file = tmp_path / "stages.json"
    done = run(binary("bench_stages", workshop), *SMALL, *NETWORKS, *DEPTHS, "--json", file)
    rows = content(done, file)["results"]
    assert [(r["dtype"], r["stage"]) for r in rows] == [
        (d, s) for d in ("float32", "bfloat16") for s in ("clip", "encode", "unet", "decode")]
    for row in rows:
        assert row["seconds"] > 0 and row["frames"] > 0 and row["peak_bytes"] > 0 and row["bytes"] > 0
        assert 0 < row["performed_operations"] <= row["operations"]
        assert row["achieved_flops"] == pytest.approx(row["performed_operations"] / row["seconds"])


def test_layers_are_timed_beside_aten(workshop, tmp_path):
    file = tmp_path / "layers.json"
    done = run(binary("bench_layers", workshop), *SMALL, *NETWORKS, "--dtype", "float32", "--json", file)
    rows = content(done, file)["results"]
    assert {r["network"] for r in rows} == {"unet", "vae"}
    assert {"conv 3x3", "conv temporal", "upsample conv", "cross attention"} <= {r["layer"] for r in rows}
    for row in rows:
        assert row["seconds"] > 0 and row["aten_seconds"] > 0 and row["bytes"] > 0
        assert 0 <= row["achieved_flops"] <= row["effective_flops"]


@pytest.mark.parametrize("name", ["bench_stages", "bench_layers"])
def test_a_bench_refuses_what_it_does_not_know(name, workshop, tmp_path):
    for arguments, message in ((["--witdh", 64], 'unknown option "--witdh"'),
                               (["--width", "x"], "--width takes numbers"),
                               (["--vae", "33"], "--vae takes multiples of 32"),
                               (["--json", tmp_path / "none" / "x.json"], "cannot write")):
        done = run(binary(name, workshop), *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr


@pytest.mark.parametrize("arguments, message", [
    (["clip", "--model", "m", "--windw", "8"], "unknown option --windw"),
    (["clip", "--stats", "yes"], "unknown option yes"),
    (["layer", "--model", "m", "--tail-mode", "repeat"], "unknown option --tail-mode"),
    (["clip", "--model"], "--model needs a value"),
    (["clip", "--input", "x.npy"], "missing --model"),
    (["film"], "usage: nc_probe clip|layer"),
])
def test_the_probe_refuses_what_it_does_not_know(arguments, message, workshop):
    done = run(workshop.build / "tests" / "engine" / "nc_probe", *arguments)
    assert done.returncode != 0
    assert message in done.stderr


def test_stages_refuse_sizes_that_the_networks_cannot_halve(workshop):
    done = run(binary("bench_stages", workshop), "--width", 200)
    assert done.returncode == 2
    assert "multiples of 64" in done.stderr


def test_the_reference_runs_once_in_a_type(workshop, tmp_path):
    file = tmp_path / "compare.json"
    done = script("compare.py", workshop, "--model", workshop.model("two-level"), "--frames", 2, "--dtype", "float32",
                  "--auto", "--bars", "--json", file)
    result = content(done, file, statuses=(0, 1))
    first, second = result["results"]
    assert (first["engine_dtype"], second["engine_dtype"]) == ("float32", "auto")
    assert first["reference_seconds"] == second["reference_seconds"]
    assert first["mean_angle_degrees"] < 0.01
    assert first["engine_peak_bytes"] > 0 and first["peak_ratio"] > 0
    assert set(first["ratios"]) <= {"load", "clip", "encode", "unet", "decode", "total"}
    assert first["ratios"]["total"] == pytest.approx(first["ratio"])
    assert "not run bfloat16, times as fast: at least" in done.stdout
    assert done.returncode == (1 if "\nFAIL" in done.stdout else 0)


def test_the_element_is_timed_beside_the_engine_and_codecs(workshop, tmp_path):
    file = tmp_path / "overhead.json"
    done = script("overhead.py", workshop, "--model", workshop.model("two-level"), "--frames", 2, "--repeats", 1,
                  "--video", "--json", file)
    result = content(done, file)
    assert [r["variant"] for r in result["results"]] == ["engine", "element", "codecs", "video"]
    assert all(r["median_seconds"] > 0 and r["median_cpu_seconds"] > 0 for r in result["results"])
    assert set(result["ratios"]) == {"element / engine", "video / (engine + codecs)"}


def test_clips_of_growing_length_are_timed(workshop, tmp_path):
    file = tmp_path / "scaling.json"
    done = script("scaling.py", workshop, "--model", workshop.model("two-level"), "--frames", 4, 1, "--json", file)
    rows = content(done, file)["results"]
    assert [r["frames"] for r in rows] == [1, 4]
    assert all(r["seconds_per_frame"] > 0 and r["cpu_seconds_per_frame"] > 0 and r["peak_bytes"] > 0 for r in rows)
    assert rows[0]["seconds_per_further_frame"] is None
    assert rows[1]["seconds_per_further_frame"] == pytest.approx((rows[1]["seconds"] - rows[0]["seconds"]) / 3)
    assert rows[1]["peak_ratio"] == pytest.approx(rows[1]["peak_bytes"] / rows[0]["peak_bytes"])


def test_each_setting_that_is_about_memory_is_measured(workshop, tmp_path):
    file = tmp_path / "memory.json"
    done = script("memory.py", workshop, "--model", workshop.model("two-level"), "--width", 128, "--height", 64,
                  "--frames", 2, "--json", file)
    rows = content(done, file)["results"]
    assert rows[0]["settings"] == []
    assert ["max-resolution=64"] in [row["settings"] for row in rows]
    assert all(row["peak_bytes"] > 0 and row["seconds"] > 0 for row in rows)


@pytest.mark.slow
def test_the_check_of_a_device_runs_on_the_cpu(workshop, tmp_path):
    table = tmp_path / "table.md"
    done = run(sys.executable, BENCH / "device_check.py", "--build", workshop.build, "--device", "cpu", "--model",
               workshop.model("two-level"), "--sizes", "64x64", "--frames", 2, "--passes", 1, "--table", table)
    assert done.returncode == (1 if "\nFAIL" in done.stdout else 0), done.stdout + done.stderr
    rows = [line.strip("| ").split(" | ") for line in table.read_text().splitlines() if line.startswith("| 64x64")]
    assert [row[1:3] for row in rows] == [[m, s] for m in ("staged", "resident") for s in ("reference", "engine")]
    assert all(float(row[3]) > 0 for row in rows)
    bars = [line for line in table.read_text().splitlines() if "to the reference" in line]
    assert len(bars) == 7 and all("pass" in bar for bar in bars), bars


def test_the_check_of_a_device_refuses_a_size_that_is_none(workshop, tmp_path):
    done = run(sys.executable, BENCH / "device_check.py", "--device", "cpu", "--sizes", "64", "--table", tmp_path / "t")
    assert done.returncode == 2
    assert "64 is not of the form WIDTHxHEIGHT" in done.stderr


@pytest.mark.parametrize("name", ["compare.py", "memory.py", "overhead.py", "scaling.py"])
def test_a_script_refuses_before_it_runs(name, workshop, tmp_path):
    done = script(name, workshop, "--model", tmp_path, "--json", tmp_path / "none" / "x.json")
    assert done.returncode == 2
    assert "cannot write" in done.stderr


def test_a_model_that_is_not_there_is_told(workshop):
    done = script("scaling.py", workshop, "--model", "no-such-model")
    assert done.returncode != 0
    assert "--model no-such-model is no directory" in done.stderr


def test_bars_judge_what_was_run():
    result = {"reference_dtype": "float32", "engine_dtype": "float32", "ratio": 2.5, "peak_ratio": 0.7}
    judged = {bar.name: bar.passed for bar in compare.bars([result])}
    assert judged["float32, times as fast"] is True
    assert judged["float32, share of the reference's peak memory"] is False
    assert judged["bfloat16, times as fast"] is None
