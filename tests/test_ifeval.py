"""IFEval: each kind of instruction, strict and loose."""

from __future__ import annotations

import pytest
import rows_for_tests as rows
from workers.tasks import get_task
from workers.tasks.ifeval_checkers import CHECKS, follows, loose_variants

ENGLISH = "The old man and his dog went down to the river in the morning"
GERMAN = "Der alte Mann und sein Hund gingen am Morgen zum Fluss hinunter"

# kind, arguments, a reply that follows, one that does not
CASES = [
    (
        "change_case:capital_word_frequency",
        {"capital_relation": "at least", "capital_frequency": 2},
        "GO to NASA now",
        "GO now",
    ),
    (
        "change_case:capital_word_frequency",
        {"capital_relation": "less than", "capital_frequency": 2},
        "GO now",
        "GO TO it",
    ),
    ("change_case:english_capital", {}, ENGLISH.upper(), ENGLISH),
    ("change_case:english_lowercase", {}, ENGLISH.lower(), ENGLISH),
    ("change_case:english_lowercase", {}, ENGLISH.lower(), GERMAN.lower()),
    ("combination:repeat_prompt", {"prompt_to_repeat": "Say hello. "}, "say hello. Hello!", "Hello! Say hello."),
    ("combination:two_responses", {}, "One.\n******\nTwo.", "One.\n******\nOne."),
    ("combination:two_responses", {}, "******One.******Two.******", "One.\n***\nTwo."),
    ("detectable_content:number_placeholders", {"num_placeholders": 2}, "[name] lives in [city]", "[name] lives"),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, "Bye.\nP.S. Write soon", "Bye. PS write soon"),
    ("detectable_content:postscript", {"postscript_marker": "P.P.S"}, "Bye.\np.p.s Write", "Bye.\nP.S. Write"),
    ("detectable_format:constrained_response", {}, "Well. My answer is maybe.", "Maybe."),
    ("detectable_format:json_format", {}, '```json\n{"a": [1]}\n```', '{"a": }'),
    (
        "detectable_format:multiple_sections",
        {"section_spliter": "Section", "num_sections": 2},
        "Section 1 a Section 2 b",
        "Section 1 a",
    ),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2}, "* a\n- b", "* a\n- b\n- c"),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 2}, "*a* and *b*", "*a* and **"),
    ("detectable_format:title", {}, "<<A title>>\ntext", "<< >> text"),
    ("keywords:existence", {"keywords": ["rain", "sun"]}, "Sun after RAIN", "Only rain"),
    ("keywords:forbidden_words", {"forbidden_words": ["rain"]}, "A raincoat", "No Rain today"),
    ("keywords:frequency", {"keyword": "rain", "relation": "at least", "frequency": 2}, "rain, Rain", "rain"),
    ("keywords:frequency", {"keyword": "rain", "relation": "less than", "frequency": 2}, "rain", "rain rain"),
    (
        "keywords:letter_frequency",
        {"letter": "Q", "let_relation": "at least", "let_frequency": 2},
        "Quite a queue",
        "Quite",
    ),
    ("language:response_language", {"language": "de"}, GERMAN, ENGLISH),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "then"},
        'First.\n\n"Then, it rained.',
        "Then.\n\nFirst.",
    ),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "***\nOne.\n***\nTwo.", "One.\n***\n***\nTwo."),
    (
        "length_constraints:number_sentences",
        {"relation": "at least", "num_sentences": 2},
        "Mr. Poe sat. He ate!",
        "Mr. Poe sat at 5 p.m. today.",
    ),
    ("length_constraints:number_words", {"relation": "less than", "num_words": 3}, "two words", "well-known words"),
    ("punctuation:no_comma", {}, "one and two", "one, two"),
    ("startend:end_checker", {"end_phrase": "Any questions?"}, 'Done. "any questions?"', "Any questions? No."),
    ("startend:quotation", {}, '"All of it"', '"Part" of it'),
]


@pytest.mark.parametrize("kind, arguments, good, bad", CASES)
def test_every_kind(kind, arguments, good, bad):
    assert follows(kind, arguments, good)
    assert not follows(kind, arguments, bad)
    assert not follows(kind, arguments, "  \n ")


def test_every_kind_is_tried():
    assert {kind for kind, *_ in CASES} == CHECKS.keys() and len(CHECKS) == 25


def test_loose_variants():
    assert loose_variants("Sure:\n*a*\nBye") == [
        "Sure:\n*a*\nBye", "*a*\nBye", "Sure:\n*a*", "*a*", "Sure:\na\nBye", "a\nBye", "Sure:\na", "a",
    ]  # fmt: skip


def test_strict_and_loose_at_prompt_and_instruction_level(tmp_path):
    path = str(rows.write_jsonl(tmp_path / "ifeval.jsonl", rows.ifeval()))
    task = get_task("ifeval", {"ifeval": path})
    sample = task.samples("test", 0, 1)[0]

    def score(output: str) -> tuple[bool, ...]:
        found = task.score(sample, output)
        assert found.metrics["instructions"] == 2 and found.metrics["prompt_strict"] == found.correct
        return (
            found.correct,
            *(found.metrics[name] for name in ("prompt_loose", "instructions_strict", "instructions_loose")),
        )

    assert score("Rain falls on the old roof") == (True, True, 2, 2)
    assert score("Sure, here it is:\nRain falls on the old roof") == (False, True, 1, 2)
    assert score("Rain, rain, rain, rain, rain") == (False, False, 1, 1)
    assert score("Rain, rain") == (False, False, 0, 0)
    assert score("") == (False, False, 0, 0)


def test_language_detection_is_the_same_every_time():
    mixed = "Oui, the weather ist gut heute, n'est-ce pas?"
    assert len({follows("language:response_language", {"language": "fr"}, mixed) for _ in range(20)}) == 1
