"""A user's own data: files in, one command, and everything to train with comes out."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from equipoise import CausalBalancer
from equipoise.balance import Groups, large
from equipoise.cli import app
from equipoise.diagnosis.covariates import Covariate
from equipoise.diagnosis.tables import tabulate_balance
from equipoise.latent import fitting
from tests.data.image_tree import write_image_tree
from tests.integration.planted_table import make_planted_table

QUICK = ("--set", "hidden=[64,64]", "--n-jobs", "1")
VAE = ("--balance-on", "all")


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def run_balance(data, output, *options):
    columns = ("--label", "ill", "--environment", "hospital")
    return run("balance", data, *columns, "--output", output, *QUICK, *options)


@pytest.fixture(scope="module")
def patients():
    return make_planted_table()


@pytest.fixture(scope="module")
def csv(patients, tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "patients.csv"
    patients.drop(columns="scanner").to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def done(csv, tmp_path_factory):
    """The command as a user would give it, and its output directory."""
    output = tmp_path_factory.mktemp("balanced") / "out"
    result = run_balance(csv, output)
    assert result.exit_code == 0, result.output
    return result, output


def test_the_planted_confounder_is_found_and_gone_after_balancing(patients, done):
    """The scanner was in no column: the weights alone must make the labels' scanners alike."""
    _, output = done
    weights = pd.read_parquet(output / "weights.parquet")
    assert weights["example"].tolist() == list(range(len(patients)))
    labels = (patients["ill"] == "yes").to_numpy(dtype=int)
    sites = pd.factorize(patients["hospital"], sort=True)[0]
    groups = Groups(labels, sites, ("no", "yes"), ("north", "south", "west"))
    scanner = Covariate("scanner", "known", (patients["scanner"] == "new").to_numpy(dtype=float))
    table = tabulate_balance([scanner], groups, weights["weight"].to_numpy())
    assert (table["smd_before"] > 0.5).all()
    assert (table["smd_after"] < 0.1).all()


def test_the_summary_names_what_was_spurious_and_what_was_not(done):
    result, output = done
    summary = (output / "summary.txt").read_text()
    assert summary.strip() in result.output
    verdict = " ".join(summary.split("Verdict")[1].split())
    assert verdict.startswith("Trade-off: balancing costs about")
    assert "Under the balanced weights no link is seen to vary any more" in verdict
    names = ("contrast", "brightness", "sharpness", "marker", "fever")
    rows = [line.split() for line in summary.splitlines()]
    after = {row[0]: float(row[2]) for row in rows if row and row[0] in names}
    assert max(after[name] for name in names[:3]) < 0.1
    assert min(after["marker"], after["fever"]) > 0.5  # left for a model to learn from


def test_the_report_is_written_and_names_the_columns(done):
    _, output = done
    page = (output / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    for name in ("contrast", "marker", "north", "yes"):
        assert name in page


def test_every_match_is_of_another_label_and_the_same_environment(patients, done):
    _, output = done
    matches = pd.read_parquet(output / "matches.parquet")
    assert list(matches.columns) == ["anchor", "match", "label", "environment", "distance"]
    anchors, found = patients.loc[matches["anchor"]], patients.loc[matches["match"]]
    assert (anchors["ill"].to_numpy() != found["ill"].to_numpy()).all()
    assert (matches["label"].to_numpy() == found["ill"].to_numpy()).all()
    assert (matches["environment"].to_numpy() == found["hospital"].to_numpy()).all()
    assert (anchors["hospital"].to_numpy() == found["hospital"].to_numpy()).all()
    weights = pd.read_parquet(output / "weights.parquet")
    anchors = matches["anchor"].unique()
    assert set(anchors) == set(weights["example"][weights["weight"] > 0])
    assert len(anchors) > 0.9 * len(patients)  # the others are where one label hardly is
    assert matches["distance"].min() >= 0


def test_weights_are_what_the_matches_amount_to(done):
    _, output = done
    matches = pd.read_parquet(output / "matches.parquet")
    weights = pd.read_parquet(output / "weights.parquet")
    share = 1.0 / matches.groupby("anchor")["match"].transform("size")
    gained = share.groupby(matches["match"]).sum().reindex(weights["example"], fill_value=0.0)
    expected = weights["example"].isin(matches["anchor"]) + gained.to_numpy()
    np.testing.assert_allclose(weights["weight"], expected / expected.mean())


def test_the_saved_balancer_hands_out_batches(patients, done):
    _, output = done
    balancer = CausalBalancer.load(output / "balancer.safetensors")
    batch = next(iter(balancer.batch_sampler(8)))
    assert patients.loc[batch, "ill"].value_counts().to_dict() == {"no": 24, "yes": 24}


def test_the_same_command_again_ends_with_the_same_files(csv, done):
    _, output = done
    names = ("matches.parquet", "weights.parquet", "balancer.safetensors", "summary.txt")
    before = {name: (output / name).read_bytes() for name in names}
    (output / "weights.parquet").unlink()
    assert run_balance(csv, output).exit_code == 0
    assert {name: (output / name).read_bytes() for name in names} == before


def test_a_command_with_matches_on_demand_says_what_it_does_not_write_and_can_be_given_again(
    csv, tmp_path, monkeypatch
):
    monkeypatch.setattr(large, "MOST_MEASURED", 1_000)
    for _ in range(2):
        result = run_balance(csv, tmp_path / "out", "--no-report", "--quiet")
        assert result.exit_code == 0, result.output
        said = " ".join(result.stderr.split())
        assert "matches.parquet is not written: matches of 3,000 examples and 2 labels" in said
        assert not (tmp_path / "out" / "matches.parquet").exists()


def test_an_interrupted_command_goes_on_and_ends_with_the_same_bits(csv, tmp_path, monkeypatch):
    options = (*VAE, "--steps", 120, "--no-report", "--quiet")
    assert run_balance(csv, tmp_path / "whole", *options).exit_code == 0
    steps = []
    take_step = fitting._Fit.step

    def give_up(self):
        if len(steps) == 70:
            raise KeyboardInterrupt
        steps.append(1)
        take_step(self)

    monkeypatch.setattr(fitting._Fit, "step", give_up)
    result = run_balance(csv, tmp_path / "cut", *options)
    assert result.exit_code == 130
    assert (tmp_path / "cut" / "fit.safetensors").is_file()
    taken = []
    monkeypatch.setattr(fitting._Fit, "step", lambda self: (taken.append(1), take_step(self)))
    assert run_balance(csv, tmp_path / "cut", *options).exit_code == 0
    assert len(taken) == 70  # it went on at step 50, the last that was kept
    for name in ("weights.parquet", "matches.parquet", "balancer.safetensors"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not (tmp_path / "cut" / "fit.safetensors").exists()


def test_no_checkpoint_of_any_candidate_stays_behind(csv, tmp_path):
    options = (*VAE, "--latent-dim", "auto", "--steps", 5, "--no-report", "--quiet")
    assert run_balance(csv, tmp_path / "out", *options).exit_code == 0
    assert not list((tmp_path / "out").glob("fit*"))


def test_an_environment_left_out_is_never_looked_at(patients, csv, tmp_path):
    options = ("--leave-out", "west", "--steps", 20, "--no-report", "--quiet")
    assert run_balance(csv, tmp_path / "out", *options).exit_code == 0
    weights = pd.read_parquet(tmp_path / "out" / "weights.parquet")
    matches = pd.read_parquet(tmp_path / "out" / "matches.parquet")
    kept = set(np.flatnonzero(patients["hospital"] != "west").tolist())
    assert set(weights["example"]) == kept
    assert set(matches["anchor"]) <= kept
    assert set(matches["match"]) <= kept
    changed = patients.drop(columns="scanner").copy()
    changed.loc[changed["hospital"] == "west", "marker"] = 1e6
    changed.to_csv(tmp_path / "changed.csv", index=False)
    assert run_balance(tmp_path / "changed.csv", tmp_path / "other", *options).exit_code == 0
    again = pd.read_parquet(tmp_path / "other" / "weights.parquet")
    pd.testing.assert_frame_equal(weights, again)


class TestOtherKinds:
    def test_parquet_with_columns_of_names(self, patients, tmp_path):
        table = patients.assign(sex=np.where(np.arange(len(patients)) % 3 == 0, "f", "m"))
        table.to_parquet(tmp_path / "patients.parquet")
        features = ("--features", "contrast,marker", "--features", "sex,scanner")
        options = (*features, "--steps", 20, "--quiet", "--no-report")
        result = run_balance(tmp_path / "patients.parquet", tmp_path / "out", *options)
        assert result.exit_code == 0, result.output
        summary = (tmp_path / "out" / "summary.txt").read_text()
        assert "scanner = old" in summary
        assert "sex = m" in summary
        assert "fever" not in summary

    def test_embeddings_in_an_npz(self, patients, tmp_path):
        x = patients[["contrast", "marker"]].to_numpy() @ np.ones((2, 120))
        arrays = {"x": x, "y": patients["ill"].astype(str), "environment": patients["hospital"]}
        arrays = {name: np.asarray(values) for name, values in arrays.items()}
        arrays = {k: v.astype(str) if v.dtype == object else v for k, v in arrays.items()}
        np.savez(tmp_path / "embeddings.npz", **arrays)
        output = tmp_path / "out"
        options = ("--output", output, *QUICK, "--steps", 20, "--quiet", "--no-report")
        result = run("balance", tmp_path / "embeddings.npz", *options)
        assert result.exit_code == 0, result.output
        assert len(pd.read_parquet(output / "weights.parquet")) == len(patients)
        assert "feature 1" not in (output / "summary.txt").read_text()  # 120 numbers have no names

    def test_a_folder_tree_names_its_files(self, tmp_path, monkeypatch):
        monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "cache"))
        environments = ("art", "photo", "sketch")
        tree = write_image_tree(tmp_path / "tree", environments, ("cat", "dog"), 30, size=16)
        options = ("--image-size", 16, "--leave-out", "sketch", "--steps", 20, "--quiet")
        output = tmp_path / "out"
        result = run("balance", tmp_path / "tree", "--output", output, *QUICK, *options)
        assert result.exit_code == 0, result.output
        weights = pd.read_parquet(output / "weights.parquet")
        assert len(weights) == 120
        assert set(weights["name"]) == {path for path in tree if not path.startswith("sketch")}
        first = weights.iloc[0]
        assert first["name"].startswith(f"{first['environment']}/{first['label']}/")
        assert (output / "report.html").read_text().count("data:image/") > 0


class TestGivenCovariates:
    @pytest.fixture
    def table(self, patients, tmp_path_factory):
        """The scanner and the sex are text, and no features."""
        sex = np.random.default_rng(1).choice(["f", "m"], size=len(patients))
        path = tmp_path_factory.mktemp("given") / "patients.csv"
        patients.assign(sex=sex).to_csv(path, index=False)
        return path

    def test_a_column_of_text_is_balanced_and_another_matched_exactly(self, table, tmp_path):
        options = ("--features", "marker,fever", "--covariates", "scanner,sex", "--exact", "sex")
        result = run_balance(table, tmp_path / "out", *options)
        assert result.exit_code == 0, result.output
        assert "Given covariate scanner predicts" in " ".join(result.output.split())
        assert "scanner = old" in (tmp_path / "out" / "report.html").read_text()
        frame = pd.read_csv(table)
        matches = pd.read_parquet(tmp_path / "out" / "matches.parquet")
        anchor, match = (frame["sex"].to_numpy()[matches[name]] for name in ("anchor", "match"))
        assert (anchor == match).all()
        weights = pd.read_parquet(tmp_path / "out" / "weights.parquet")["weight"]
        share = weights.groupby([frame["ill"], frame["scanner"]]).sum().unstack()
        share = share["new"] / share.sum(axis=1)
        assert abs(share["yes"] - share["no"]) < 0.05  # it was 0.6

    def test_covariates_alone_need_no_second_environment(self, table, tmp_path):
        pd.read_csv(table).query("hospital == 'north'").to_csv(tmp_path / "t.csv", index=False)
        options = ("--covariates", "scanner", "--balance-on", "given", "--method", "entropy")
        result = run_balance(tmp_path / "t.csv", tmp_path / "out", *options, "--quiet")
        assert result.exit_code == 0, result.output
        assert not (tmp_path / "out" / "matches.parquet").exists()
        summary = " ".join((tmp_path / "out" / "summary.txt").read_text().split())
        assert "Trade-off: balancing costs about" in summary

    def test_all_methods_stand_beside_each_other_on_the_page(self, table, tmp_path):
        options = ("--features", "contrast,marker", "--method", "all", "--quiet")
        result = run_balance(table, tmp_path / "out", *options)
        assert result.exit_code == 0, result.output
        page = (tmp_path / "out" / "report.html").read_text()
        assert all(method in page for method in ("overlap", "entropy"))

    def test_images_have_theirs_in_a_table_by_file_name(self, tmp_path, monkeypatch):
        monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "cache"))
        tree = write_image_tree(tmp_path / "tree", ("art", "photo"), ("cat", "dog"), 40, size=16)
        known = pd.DataFrame({"file": list(tree), "background": [f"b{v}" for v in tree.values()]})
        known.sample(frac=1, random_state=0).to_csv(tmp_path / "known.csv", index=False)
        options = (
            "--balance-on",
            "given",
            "--image-size",
            16,
            "--covariate-table",
            tmp_path / "known.csv",
            *QUICK,
        )
        output = tmp_path / "out"
        result = run("balance", tmp_path / "tree", "--output", output, *options)
        assert result.exit_code == 0, result.output
        said = " ".join(result.output.split())
        assert "Given covariate background predicts" in said
        assert "in nothing else" not in said
        weights = pd.read_parquet(output / "weights.parquet")
        background = weights["name"].map(tree)
        share = weights["weight"].groupby([weights["label"], background]).sum().unstack()
        share = share.div(share.sum(axis=1), axis=0)
        assert (share.loc["cat"] - share.loc["dog"]).abs().max() < 0.1
        known.iloc[1:].to_csv(tmp_path / "known.csv", index=False)
        result = run("balance", tmp_path / "tree", "--output", tmp_path / "other", *options)
        assert result.exit_code == 2
        assert "has no row for art/cat/0000.jpg" in " ".join(result.stderr.split())


class TestMistakes:
    @pytest.mark.parametrize(
        ("change", "options", "message"),
        [
            ({"marker": np.nan}, (), "missing cells: 'marker' (60 rows"),
            ({"ill": None}, (), "has missing values"),
            ({"ill": "yes"}, (), "every example has the label 'yes'"),
            ({"hospital": "north"}, (), "every example is of the environment 'north'"),
            ({}, ("--features", "markr"), "Did you mean 'marker'?"),
            ({}, ("--leave-out", "nort"), "Did you mean 'north'?"),
            ({}, ("--set", "tolerence=1"), "Did you mean 'tolerance'?"),
            ({}, ("--set", "tolerance"), "name=value"),
            ({}, ("--set", "tolerance=few"), "tolerance must be a number, got 'few'"),
            ({}, ("--set", "prior=7"), "unknown prior"),
            ({}, ("--set", "reading=both"), "unknown reading 'both'"),
            ({}, ("--set", "hidden=wide"), "such as 64 or [64, 64], got 'wide'"),
            ({}, ("--set", "hidden=[64,0]"), "hidden must be widths of layers"),
            ({}, ("--set", "reuse_max=1.5"), "reuse_max must be a whole number, got 1.5"),
            ({}, ("--set", "latent_dim=2"), "use --latent-dim"),
            ({}, ("--set", "max_steps=2"), "use --steps"),
            ({}, ("--image-size", 8), "--image-size says nothing about"),
            ({"marker": "n/a"}, ("--features", "marker,fever"), "choose columns with --features"),
            ({}, ("--metric", "l3"), "Did you mean"),
            ({}, ("--method", "al"), "Did you mean 'all'?"),
            ({}, ("--balance-on", "al"), "Did you mean 'all'?"),
            ({}, ("--balance-on", "given"), "needs covariates: give at least one"),
            ({}, ("--covariates", "markr"), "Did you mean 'marker'?"),
            ({}, ("--exact", "sex"), "must be one of the covariates"),
            (
                {"sex": "f"},
                ("--covariates", "sex", "--exact", "sex", "--method", "overlap"),
                "exact goes with method=\"match\"; got method='overlap'",
            ),
            ({}, ("--covariate-table", "t.csv"), "--covariate-table goes with images"),
            ({}, ("--latent-dim", "atuo"), "Did you mean 'auto'?"),
            ({}, ("--latent-dim", 0), "--latent-dim must be at least 1"),
            ({}, ("--n-matches", 5), "--n-matches must be between 1 and"),
            ({}, ("--caliper", 1e-300, "--quiet"), "leave no example with a match"),
        ],
    )
    def test_a_mistake_is_one_sentence_and_exit_code_2(
        self, patients, tmp_path, change, options, message
    ):
        table = patients.drop(columns="scanner").head(60)
        for name, value in change.items():
            table[name] = value
        table.to_csv(tmp_path / "t.csv", index=False)
        result = run_balance(tmp_path / "t.csv", tmp_path / "out", "--steps", 2, *options)
        assert result.exit_code == 2
        said = " ".join(result.stderr.split())
        assert said.startswith("error: ")
        assert message in said
        assert "Traceback" not in said

    def test_a_mistake_does_not_block_its_correction(self, patients, tmp_path):
        table = patients.drop(columns="scanner").head(300)
        table.assign(ill="yes").to_csv(tmp_path / "wrong.csv", index=False)
        table.to_csv(tmp_path / "right.csv", index=False)
        options = ("--steps", 2, "--quiet", "--no-report")
        output = tmp_path / "out"
        assert run_balance(tmp_path / "wrong.csv", output, *options).exit_code == 2
        assert not output.exists()
        result = run_balance(tmp_path / "right.csv", output, *options)
        assert result.exit_code == 0, result.output

    def test_what_was_only_begun_is_begun_anew_and_this_is_said(self, csv, tmp_path, monkeypatch):
        options = (*VAE, "--quiet", "--no-report")
        take_step = fitting._Fit.step
        steps = []

        def give_up(self):
            if len(steps) == 60:
                raise KeyboardInterrupt
            steps.append(1)
            take_step(self)

        with monkeypatch.context() as patch:
            patch.setattr(fitting._Fit, "step", give_up)
            assert run_balance(csv, tmp_path / "out", "--steps", 70, *options).exit_code == 130
        assert (tmp_path / "out" / "fit.safetensors").is_file()
        result = run_balance(csv, tmp_path / "out", "--steps", 5, *options)
        assert result.exit_code == 0, result.output
        said = " ".join(result.stderr.split())
        assert "note: " in said
        assert "beginning of a fit with other parameters (max_steps): it starts over" in said
        assert run_balance(csv, tmp_path / "fresh", "--steps", 5, *options).exit_code == 0
        for name in ("weights.parquet", "balancer.safetensors", "settings.json"):
            again, fresh = ((tmp_path / folder / name).read_bytes() for folder in ("out", "fresh"))
            assert again == fresh

    @pytest.mark.parametrize("widths", ["8", "8,8", "(8,8)", "[8,8]"])
    def test_widths_are_understood_as_people_write_them(self, patients, tmp_path, widths):
        patients.head(200).to_csv(tmp_path / "t.csv", index=False)
        options = (*VAE, "--set", f"hidden={widths}", "--steps", 2, "--quiet", "--no-report")
        result = run_balance(tmp_path / "t.csv", tmp_path / "out", *options)
        assert result.exit_code == 0, result.output
        loaded = CausalBalancer.load(tmp_path / "out" / "balancer.safetensors")
        assert loaded.latent_model_.settings.hidden == ((8,) if widths == "8" else (8, 8))

    def test_what_looks_like_an_identifier_is_noted(self, patients, tmp_path):
        table = patients.head(200).assign(number=np.arange(200) + 1000, visits=np.arange(200) % 7)
        table.to_csv(tmp_path / "t.csv", index=False)
        options = ("--steps", 2, "--quiet", "--no-report")
        result = run_balance(tmp_path / "t.csv", tmp_path / "out", *options)
        assert result.exit_code == 0, result.output
        said = " ".join(result.stderr.split())
        assert "note: 'number' of" in said
        assert "name the columns to use with --features" in said
        options += ("--features", "contrast,marker,number")  # whoever names it, means it
        result = run_balance(tmp_path / "t.csv", tmp_path / "other", *options)
        assert "note: " not in result.stderr

    def test_training_on_a_table_asks_for_its_columns(self, csv, tmp_path):
        options = ("--algorithm", "ERM", "--test-environment", 0, "--output", tmp_path / "run")
        result = run("train", "--dataset", csv, *options)
        assert result.exit_code == 2
        said = " ".join(result.stderr.split())
        assert "say which of contrast, brightness" in said
        assert "with --label" in said
        assert not (tmp_path / "run").exists()

    def test_a_directory_of_other_results_is_left_alone(self, csv, done, tmp_path):
        _, output = done
        before = (output / "settings.json").read_text()
        result = run_balance(csv, output, "--steps", 7)
        assert result.exit_code == 2
        said = " ".join(result.stderr.split())
        assert "holds the result of other parameters (max_steps)" in said
        assert (output / "settings.json").read_text() == before
        (tmp_path / "thesis.txt").write_text("")
        result = run_balance(csv, tmp_path)
        assert result.exit_code == 2
        assert "is not empty and holds no result" in " ".join(result.stderr.split())


def test_help_starts_with_the_three_most_common_uses():
    shown = run("balance", "--help").output
    uses = shown.split("Arguments")[0]
    for words in ("patients.csv --label ill", "photos --image-size", "embeddings.npz"):
        assert words in uses
