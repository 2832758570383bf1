import numpy as np

from hub_export.answers import (
    call_answers,
    read_expected,
    requests_of,
    session_answers,
    signature_answers,
    write_expected,
)


def test_both_loaders_answer_the_same(exported, serving):
    requests = requests_of(exported.serving, serving)
    in_session = session_answers(exported.serving, requests)
    loaded = signature_answers(serving.signatures, requests)
    assert sorted(in_session) == sorted(loaded)
    assert len(loaded) == 6
    for name, array in loaded.items():
        if array.dtype.kind == "f":
            np.testing.assert_allclose(in_session[name], array, rtol=0, atol=1e-5)


def test_answers_of_a_module_are_those_of_its_parts(encoder, preprocessor, serving):
    names = {name.split("/")[0] for name in call_answers(encoder)}
    assert names == {"call", "mlm", "sop"}
    assert sorted(call_answers(preprocessor)) == [
        f"call/{name}/0" for name in ("input_mask", "input_type_ids", "input_word_ids")
    ]
    assert call_answers(serving) == {}


def test_expected_answers_survive_the_file(tmp_path):
    expected = {
        "encoder": {"call/pooled_output/0": np.array([[1.5, 2.5]], np.float32)},
        "serving/1": {"fill_mask/tokens/0": np.array([[b"sea", b""]], "S")},
    }
    write_expected(tmp_path / "answers.npz", expected)
    found = read_expected(tmp_path / "answers.npz")
    assert found.keys() == expected.keys()
    for folder, arrays in expected.items():
        assert found[folder].keys() == arrays.keys()
        for name, array in arrays.items():
            np.testing.assert_array_equal(found[folder][name], array)
