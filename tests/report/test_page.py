"""The page: complete, by itself, the same every time, and nobody's names are markup."""

import re

import numpy as np
import pytest

from equipoise.balancer import CausalBalancer
from equipoise.data import EnvironmentDataset
from equipoise.report import write_report
from equipoise.report.html import escape
from equipoise.report.pictures import write_share
from report.subjects import HOSTILE, fit_pictures, fit_table, make_table

SECTIONS = [
    *("balance", "tables", "overlap", "gallery", "latent", "identifiability", "use", "tuning"),
    "settings",
]


@pytest.fixture(scope="module")
def table_page(tmp_path_factory):
    path = write_report(tmp_path_factory.mktemp("page") / "table.html", fit_table("all"))
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def picture_page(tmp_path_factory):
    path = write_report(tmp_path_factory.mktemp("page") / "pictures.html", fit_pictures("all"))
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def varying_page(tmp_path_factory):
    path = write_report(tmp_path_factory.mktemp("page") / "varying.html", fit_pictures())
    return path.read_text(encoding="utf-8")


def test_it_has_every_section_and_a_way_to_each(table_page):
    assert re.findall(r'<section id="([\w-]+)">', table_page) == SECTIONS
    assert re.findall(r'<a href="#([\w-]+)">', table_page) == SECTIONS


def test_without_a_model_of_z_the_test_is_shown_and_nothing_about_the_model(varying_page):
    model_only = ("latent", "identifiability")
    expected = ["varying", *(name for name in SECTIONS if name not in model_only)]
    assert re.findall(r'<section id="([\w-]+)">', varying_page) == expected


def test_parameters_of_the_vae_are_listed_only_where_one_was_fitted(table_page, varying_page):
    assert re.search(r"<td>reading</td><td>\w+ \(chosen by", table_page)
    for name in ("prior", "latent_dim", "reading", "hidden", "max_steps", "lr", "device"):
        assert f"<td>{name}</td>" in table_page
        assert f"<td>{name}</td>" not in varying_page
    assert "<td>n_nearest</td>" in varying_page


def test_the_verdict_comes_first(table_page):
    verdict = fit_table("all").diagnose().verdict
    assert escape(verdict.headline) in table_page
    assert table_page.index('id="verdict"') < table_page.index('id="balance"')


def test_what_is_not_known_is_said_in_words_or_by_a_dash(tmp_path):
    settings = {"max_steps": 30, "n_nearest": 5, "common_support": 0.2, "random_state": 0}
    balancer = CausalBalancer("all", **settings).fit(*make_table())
    assert balancer.matches_.matched.sum() < 80
    page = write_report(tmp_path / "trimmed.html", balancer).read_text(encoding="utf-8")
    assert "Recommendation: <b>leave as it is</b>" in page
    assert "under the balanced weights, an unknown share" in page
    assert re.search(r"Balanced batches never show \d+ of 240 examples", page)
    assert not re.search(r"\bnan\b", page, flags=re.IGNORECASE)


def test_it_needs_no_other_file(table_page, picture_page):
    for page in (table_page, picture_page):
        assert "default-src &#x27;none&#x27;" in page
        addresses = re.findall(r'(?:src|href|url)\s*[=(]\s*["\']?([^"\'\s>)]+)', page)
        markup = [a for a in addresses if "&" not in a and "\\u003" not in a]
        assert markup
        assert all(a.startswith(("data:", "#", "x")) for a in markup), set(markup)
        assert "http://" not in page
        assert "https://" not in page


def test_names_are_never_markup(table_page, picture_page, varying_page):
    for page in (table_page, picture_page, varying_page):
        assert "<img src=x" not in page
        assert "<script>window.hacked" not in page
        assert page.count("</script>") == 2  # the gallery's data and the page's own script
        assert "&lt;/script&gt;" in page


def test_features_of_a_table_are_shown_by_name_and_value(table_page):
    assert '"features":["signal"' in table_page
    assert '"v":[' in table_page
    assert '"p":"data:image' not in table_page


def test_how_well_z_predicts_is_shown_for_each_environment(picture_page):
    information = fit_pictures("all").diagnose().information
    section = picture_page.split("How well Z predicts the label")[1].split("</table>")[0]
    for place in ("day", "night"):
        own = information[(information["kind"] == "z") & (information["environment"] == place)]
        share = write_share(float(own["before"].iloc[0] / own["label_entropy"].iloc[0]))
        assert re.search(rf"<td>{place}</td><td[^>]*>{share}</td>", section)


def test_an_automatic_choice_of_latent_size_is_shown_with_its_reason(tmp_path, table_page):
    settings = {"hidden": (16,), "max_steps": 20, "n_nearest": 3, "random_state": 0}
    balancer = CausalBalancer("all", latent_dim="auto", prior="auto", **settings)
    balancer.fit(*make_table())
    saved = tmp_path / "balancer.safetensors"
    balancer.save(saved)
    choice = balancer.latent_choice_
    for one in (balancer, CausalBalancer.load(saved)):
        page = write_report(tmp_path / "page.html", one).read_text(encoding="utf-8")
        section = page.split("How its size was chosen")[1].split("</table>")[0]
        assert escape(choice.sentence) in section
        rows = section.count("<tr>") - 1  # one is the head
        assert rows == len(choice.candidates) > 2
        marked = re.findall(r"<td>([\w-]+)</td><td>chosen</td>[^>]*>(\d+)<", section)
        assert marked == [(choice.prior, str(choice.latent_dim))]
    assert "How its size was chosen" not in table_page  # which was given no "auto"


def test_the_page_tells_how_many_labels_are_identified_alone(table_page):
    # Two environments tell one direction within a label; the paper's n has four.
    card = table_page.split("labels identified by their own environments")[1].split("</div>")[0]
    assert "<dd>0<small>of 3; 5 environments needed, at most 2 seen</small>" in card
    assert len(re.findall(r'title="\d+ examples, (?:spans L|the reference)"', table_page)) > 2


def test_pictures_are_inside_the_page(picture_page):
    assert picture_page.count("data:image/png;base64,") > 50


def test_a_known_covariate_has_its_table(picture_page):
    assert "Label × colour" in picture_page


def test_the_same_seed_writes_the_same_bytes(tmp_path):
    pages = [write_report(tmp_path / f"{i}.html", fit_table()).read_bytes() for i in range(2)]
    other = write_report(
        tmp_path / "other.html", fit_table(), diagnostics=fit_table().diagnose(), seed=4
    )
    assert pages[0] == pages[1] != other.read_bytes()


def test_a_loaded_balancer_reports_without_examples_or_with_them(tmp_path):
    fit_table().save(tmp_path / "balancer.safetensors")
    loaded = CausalBalancer.load(tmp_path / "balancer.safetensors")
    without = write_report(tmp_path / "without.html", loaded).read_text()
    assert 'id="gallery"' not in without
    assert 'id="balance"' in without
    given = write_report(tmp_path / "with.html", loaded, *make_table()).read_text()
    assert 'id="gallery"' in given
    assert HOSTILE not in given


def test_texts_are_shown_in_place_of_features(tmp_path):
    texts = [f"review {i} {HOSTILE}" for i in range(240)]
    page = write_report(tmp_path / "x.html", fit_table(), texts=texts).read_text()
    assert '"t":"review ' in page
    assert '"v":[' not in page
    assert HOSTILE not in page
    with pytest.raises(ValueError, match="texts has 2 entries, but there are 240 examples"):
        write_report(tmp_path / "x.html", fit_table(), texts=["a", "b"])


def test_no_sentence_of_the_page_is_long(table_page, picture_page, varying_page):
    for page in (table_page, picture_page, varying_page):
        paragraphs = re.findall(r'<p class="(?:lead|note)">([^<]*)</p>', page)
        assert len(paragraphs) > 8
        sentences = [s for text in paragraphs for s in re.split(r"(?<=[.;:])\s", text)]
        assert [s for s in sentences if len(s.split()) > 30] == []


def test_further_examples_are_matched_among_themselves(tmp_path):
    features, labels, places = make_table(80)
    page = write_report(tmp_path / "x.html", fit_table(), features, labels, places).read_text()
    assert "80 examples" in page
    shown = {int(i) for i in re.findall(r'"i":(\d+)', page)}
    assert shown
    assert max(shown) < 80


def test_broken_names_of_files_can_be_written(tmp_path):
    page = write_report(tmp_path / "x.html", fit_table(), title="half \udc80 a character")
    assert "half &#56448; a character" in page.read_text(encoding="utf-8")


def test_what_cannot_be_reported_is_said_plainly(tmp_path):
    with pytest.raises(ValueError, match="nothing to report on"):
        write_report(tmp_path / "x.html")
    with pytest.raises(ValueError, match="is a directory; name a file"):
        write_report(tmp_path, fit_table())
    with pytest.raises(ValueError, match="has not been fitted"):
        write_report(tmp_path / "x.html", CausalBalancer())
    with pytest.raises(ValueError, match="2 names, but an example has 4 features"):
        write_report(tmp_path / "x.html", fit_table(), feature_names=["a", "b"])
    assert not (tmp_path / "x.html").exists()


class Labelled(EnvironmentDataset):
    """Many labels: thirty of them, in large grey pictures."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.labels, self.environments = np.arange(120) % 30, np.arange(120) // 60
        self.label_names = tuple(f"kind {i}" for i in range(30))
        self.environment_names = ("a", "b")
        self.input_shape = (1, 52, 52)
        self._x = rng.random((120, 1, 52, 52)).astype(np.float32)

    def fetch(self, indices):
        import torch

        return torch.from_numpy(self._x[indices])


def test_many_labels_and_large_pictures_stay_a_small_page(tmp_path):
    balancer = CausalBalancer(max_steps=3, n_nearest=3, hidden=(8,), latent_dim=2)
    page = write_report(tmp_path / "x.html", balancer.fit(Labelled()))
    assert page.stat().st_size < 4_000_000
    text = page.read_text()
    assert "The 12 nearest of the 29 labels are shown." in text
    assert "The first 20 of 30 labels." in text
