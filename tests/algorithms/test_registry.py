import importlib
import sys
from importlib.metadata import EntryPoint
from textwrap import dedent

import pytest
import torch

from equipoise.algorithms import ERM, Algorithm, get_algorithm, list_algorithms, registry

from .tiny import tiny_batches, tiny_net

THE_27 = {
    *("ERM", "IRM", "GroupDRO", "Mixup", "MLDG", "CORAL", "MMD", "DANN", "CDANN", "MTL", "SagNet"),
    *("ARM", "VREx", "RSC", "Fish", "Fishr", "ANDMask", "SANDMask", "SelfReg", "CausIRL_CORAL"),
    *("CausIRL_MMD", "PI", "JTT", "LfF", "EIIL", "DFR", "AFR"),
}

OWN_PACKAGE = dedent(
    """
    import torch
    from torch.nn.functional import cross_entropy
    from equipoise.algorithms import Algorithm, Hyperparameter, uniform

    class LabelSmoothing(Algorithm):
        hyperparameters = {"smoothing": Hyperparameter(0.1, draw=uniform(0, 0.3))}

        def objective(self, batches):
            features, labels = self.encode(batches)
            logits = self.classifier(torch.cat(features))
            smoothing = self.settings["smoothing"]
            loss = cross_entropy(logits, torch.cat(labels), label_smoothing=smoothing)
            return loss, {"loss": loss}
    """
)


@pytest.fixture
def clean_registry(monkeypatch):
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))


@pytest.fixture
def own_package(tmp_path, monkeypatch, clean_registry):
    (tmp_path / "my_algorithms.py").write_text(OWN_PACKAGE)
    monkeypatch.syspath_prepend(tmp_path)
    yield "my_algorithms"
    sys.modules.pop("my_algorithms", None)


def test_all_27_algorithms_are_there_under_their_names_and_no_mere_base():
    assert {
        name
        for name in list_algorithms()
        if get_algorithm(name).__module__.startswith("equipoise.")
    } == THE_27
    assert len(THE_27) == 27
    for name in THE_27:
        assert get_algorithm(name).__name__ == name


@pytest.mark.parametrize(("typo", "meant"), [("Coral", "CORAL"), ("GroupDR0", "GroupDRO")])
def test_an_unknown_name_is_answered_with_the_nearest_and_all_known(typo, meant):
    with pytest.raises(ValueError, match=f"Did you mean '{meant}'") as error:
        get_algorithm(typo)
    assert "SANDMask" in str(error.value)


def test_an_algorithm_of_an_own_package_is_known_once_imported_and_trains(own_package):
    with pytest.raises(ValueError, match="unknown algorithm 'LabelSmoothing'"):
        get_algorithm("LabelSmoothing")
    importlib.import_module(own_package)
    own = get_algorithm("LabelSmoothing")((6,), 3, 2, featurizer=tiny_net, smoothing=0.2, lr=1e-2)
    assert "LabelSmoothing" in list_algorithms()
    assert own.settings["smoothing"] == 0.2
    assert set(own.settings) == {*ERM.hyperparameters, "smoothing"}
    losses = [own.update(tiny_batches((24, 16)))["loss"] for _ in range(60)]
    assert losses[-1] < 0.8 * losses[0]


def test_a_reloaded_module_replaces_its_own_class(own_package):
    module = importlib.import_module(own_package)
    first = get_algorithm("LabelSmoothing")
    importlib.reload(module)
    assert get_algorithm("LabelSmoothing") is not first


def test_an_installed_package_is_found_by_its_entry_point(own_package, monkeypatch):
    entry_point = EntryPoint("mine", own_package, registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry_point])
    assert get_algorithm("LabelSmoothing").__module__ == own_package


def test_a_second_class_of_the_same_name_is_refused(clean_registry):
    with pytest.raises(ValueError, match=r"already registered by equipoise.algorithms.risks.IRM"):
        type("IRM", (ERM,), {"__module__": "elsewhere"})


def test_an_abstract_base_is_not_registered_but_its_children_inherit(clean_registry):
    class Halved(Algorithm, abstract=True):
        min_environments = 2

        def objective(self, batches):
            features, labels = self.encode(batches)
            logits = self.classifier(torch.cat(features))
            loss = torch.nn.functional.cross_entropy(logits, torch.cat(labels)) / 2
            return loss, {"loss": loss}

    class HalvedERM(Halved):
        pass

    assert "HalvedERM" in list_algorithms()
    assert "Halved" not in list_algorithms()
    halved = HalvedERM((6,), 3, 2, featurizer=tiny_net).update(tiny_batches())["loss"]
    whole = ERM((6,), 3, 2, featurizer=tiny_net).update(tiny_batches())["loss"]
    assert halved == pytest.approx(whole / 2)
