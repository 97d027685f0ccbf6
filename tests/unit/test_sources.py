"""Whatever is wrong with a YAML file is one sentence that names the file and, where there is one, the line."""

from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

from common.errors import UserError
from common.sources import load_typed, read_yaml

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("a: 1\n".encode("utf-16"), ":1: not UTF-8 text; save the file as UTF-8"),
        (b"a: 1\nb: \xe9\n", ":2: not UTF-8 text"),
        (b'a: 1\nb: "\x07"\n', ":2: not valid YAML: control characters are not allowed"),
        (b"a: \x00", ":1: not valid YAML: control characters"),
        (b"a: 1\n? [b, c]\n: d\n", ":2: not valid YAML: a list or mapping cannot be a key"),
        (b"? {b: c}\n: d\n", ":1: not valid YAML: a list or mapping cannot be a key"),
        (b"a: 1\n2: b\n", ":2: not valid YAML: the key 2 is no text; put it into quotes"),
        (b"a: " + b"[" * 900 + b"]" * 900, ": not valid YAML: it is nested too deeply"),
        (b"a: " + b"[" * 100_000 + b"]" * 100_000, ": not valid YAML: it is nested too deeply"),
        (b"".join(b" " * depth + b"a:\n" for depth in range(300)), ": not valid YAML: it is nested too deeply"),
        (b"a: 1\nb: !!set {x, y}\n", ":2: not valid YAML: could not determine a constructor"),
        (b"a: !!binary aGVsbG8=\n", ":1: not valid YAML: could not determine a constructor"),
        (b"a: !!int x\n", ": not valid YAML: invalid literal"),
        (b"a: !!bool x\n", ": not valid YAML: 'x'"),
        (b"a: &a [*a]\n", ":1: not valid YAML: found unconstructable recursive node"),
        (b"a: 1\n<<<<<<< HEAD\nb: 2\n=======\nb: 3\n>>>>>>> other\n", ":3: not valid YAML"),
        (
            b"a: More draws: less error.\n",
            ":1: not valid YAML: a colon with a space after it begins a mapping; put a text",
        ),
        (b"a: 1\n---\nb: 2\n", ":2: not valid YAML"),
    ],
)
def test_what_is_no_configuration_is_one_sentence_with_file_and_line(
    content: bytes, sentence: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(content)
    with pytest.raises(UserError) as raised:
        read_yaml(path)
    assert str(raised.value).startswith(f"{path}{sentence}")
    assert "\n" not in str(raised.value)


def test_a_date_is_text_and_an_exponent_a_number(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("day: 2026-01-31\nrate: 1e-3\n")
    assert read_yaml(path)[0] == {"day": "2026-01-31", "rate": 1e-3}


def test_libyaml_reads_the_same_content_and_lines_as_pythons_composer() -> None:
    class Slow(yaml.SafeLoader):
        """What reads where libyaml is missing, without our kinds."""

    for path in ROOT.glob("replications/*/config.yaml"):
        node = read_yaml(path)[1]
        assert _shape(node) == _shape(yaml.compose(path.read_text(), Loader=Slow))


def _shape(node: yaml.Node | None) -> object:
    if isinstance(node, yaml.MappingNode):
        return [(_shape(key), _shape(value)) for key, value in node.value]
    if isinstance(node, yaml.SequenceNode):
        return [_shape(value) for value in node.value]
    assert isinstance(node, yaml.ScalarNode)
    return node.start_mark.line, node.value


class Numbers(BaseModel):
    one: int


def test_a_kept_file_is_read_again_when_it_changes_and_its_errors_name_the_present_line(tmp_path: Path) -> None:
    for folder in ("replications", "common"):
        (tmp_path / folder).mkdir()
    path = tmp_path / "replications" / "numbers.yaml"
    for value in (1, 2, 2):
        path.write_text(f"one: {value}\n")
        assert load_typed(path, Numbers).one == value
    path.write_text("# a line more\none: two\n")
    for _ in range(2):
        with pytest.raises(UserError, match=r"numbers\.yaml:2: one: .* \(got 'two'\)"):
            load_typed(path, Numbers)
