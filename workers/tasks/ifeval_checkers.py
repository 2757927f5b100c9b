"""The 25 verifiable instructions of IFEval (arXiv 2311.07911), each a check of a reply; one entry a kind.

They decide as the published evaluation does, with four exceptions: language detection is seeded, so a reply has one
score; a "letter" to count that is none (an exclamation mark, say) is counted and not replaced by a random one; words
are found by a regular expression instead of the Treebank tokenizer; sentences are found by a copy of NLTK's Punkt
that ships with its package, since the original downloads its model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

Arguments = Mapping[str, Any]
Check = Callable[[str, Arguments], bool]

WORD = re.compile(r"\w+")
HYPHENATED = re.compile(r"\w(?:[\w.'’-]*\w)?")
FIRST_WORD_ENDS = re.compile(r"[.,?!'\"]")
ANSWERS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")


def compare(count: int, relation: str, bound: int) -> bool:
    return count < bound if relation == "less than" else count >= bound


def language(text: str) -> str | None:
    """ISO 639-1 code, None if the text has no features of any language."""
    import langdetect

    langdetect.DetectorFactory.seed = 0
    try:
        return langdetect.detect(text)
    except langdetect.LangDetectException:
        return None


def sentences(text: str) -> int:
    import punkt

    return len(punkt.sent_tokenize(text))


def highlights(text: str) -> int:
    once = [part.strip("*").strip() for part in re.findall(r"\*[^\n\*]*\*", text)]
    twice = [part.removeprefix("**").removesuffix("**").strip() for part in re.findall(r"\*\*[^\n\*]*\*\*", text)]
    return sum(map(bool, once + twice))


def bullets(text: str) -> int:
    return len(re.findall(r"^\s*\*[^\*].*$", text, re.MULTILINE)) + len(re.findall(r"^\s*-.*$", text, re.MULTILINE))


def paragraphs(text: str, a: Arguments) -> bool:
    """Paragraphs divided by ***; an empty one counts as a mistake unless it is at an end."""
    parts = re.split(r"\s?\*\*\*\s?", text)
    if not all(part.strip() for part in parts[1:-1]):
        return False
    ends = (parts[0], parts[-1]) if len(parts) > 1 else (parts[0],)
    return len(parts) - sum(not part.strip() for part in ends) == a["num_paragraphs"]


def nth_paragraph(text: str, a: Arguments) -> bool:
    """Paragraphs divided by two line breaks, and the first word of one of them."""
    parts = text.split("\n\n")
    count = sum(bool(part.strip()) for part in parts)
    if count != a["num_paragraphs"] or not 0 < a["nth_paragraph"] <= count:
        return False
    words = parts[a["nth_paragraph"] - 1].split()
    if not words:
        return False
    first = FIRST_WORD_ENDS.split(words[0].lstrip("'").lstrip('"'))[0]
    return first.lower() == a["first_word"].lower()


def postscript(text: str, a: Arguments) -> bool:
    patterns = {"P.P.S": r"\s*p\.\s?p\.\s?s.*$", "P.S.": r"\s*p\.\s?s\..*$"}
    marker = a["postscript_marker"]
    pattern = patterns.get(marker, r"\s*" + re.escape(marker.lower()) + r".*$")
    return re.search(pattern, text.lower(), re.MULTILINE) is not None


def is_json(text: str, a: Arguments) -> bool:
    text = text.strip()
    for fence in ("```json", "```Json", "```JSON", "```"):
        text = text.removeprefix(fence)
    try:
        json.loads(text.removesuffix("```").strip())
    except (ValueError, RecursionError):
        return False
    return True


def two_responses(text: str, a: Arguments) -> bool:
    parts = text.split("******")
    if not all(part.strip() for part in parts[1:-1]):
        return False
    answers = [part.strip() for part in parts if part.strip()]
    return len(answers) == 2 and answers[0] != answers[1]


def title(text: str, a: Arguments) -> bool:
    return any(found.lstrip("<").rstrip(">").strip() for found in re.findall(r"<<[^\n]+>>", text))


def quoted(text: str, a: Arguments) -> bool:
    text = text.strip()
    return len(text) > 1 and text[0] == text[-1] == '"'


def sections(text: str, a: Arguments) -> bool:
    return len(re.split(r"\s?" + a["section_spliter"] + r"\s?\d+\s?", text)) - 1 >= a["num_sections"]


def english(text: str, fits_case: bool) -> bool:
    return fits_case and language(text) in ("en", None)


def found(pattern: str, text: str) -> int:
    return len(re.findall(pattern, text, re.IGNORECASE))


CHECKS: dict[str, Check] = {
    "change_case:capital_word_frequency": lambda text, a: compare(
        sum(word.isupper() for word in HYPHENATED.findall(text)), a["capital_relation"], a["capital_frequency"]
    ),
    "change_case:english_capital": lambda text, a: english(text, text.isupper()),
    "change_case:english_lowercase": lambda text, a: english(text, text.islower()),
    "combination:repeat_prompt": lambda text, a: text.strip().lower().startswith(a["prompt_to_repeat"].strip().lower()),
    "combination:two_responses": two_responses,
    "detectable_content:number_placeholders": lambda text, a: (
        len(re.findall(r"\[.*?\]", text)) >= a["num_placeholders"]
    ),
    "detectable_content:postscript": postscript,
    "detectable_format:constrained_response": lambda text, a: any(answer in text for answer in ANSWERS),
    "detectable_format:json_format": is_json,
    "detectable_format:multiple_sections": sections,
    "detectable_format:number_bullet_lists": lambda text, a: bullets(text) == a["num_bullets"],
    "detectable_format:number_highlighted_sections": lambda text, a: highlights(text) >= a["num_highlights"],
    "detectable_format:title": title,
    "keywords:existence": lambda text, a: all(found(word, text) for word in a["keywords"]),
    "keywords:forbidden_words": lambda text, a: not any(found(rf"\b{word}\b", text) for word in a["forbidden_words"]),
    "keywords:frequency": lambda text, a: compare(found(a["keyword"], text), a["relation"], a["frequency"]),
    "keywords:letter_frequency": lambda text, a: compare(
        text.lower().count(a["letter"].lower()), a["let_relation"], a["let_frequency"]
    ),
    "language:response_language": lambda text, a: language(text) in (a["language"], None),
    "length_constraints:nth_paragraph_first_word": nth_paragraph,
    "length_constraints:number_paragraphs": paragraphs,
    "length_constraints:number_sentences": lambda text, a: compare(sentences(text), a["relation"], a["num_sentences"]),
    "length_constraints:number_words": lambda text, a: compare(len(WORD.findall(text)), a["relation"], a["num_words"]),
    "punctuation:no_comma": lambda text, a: "," not in text,
    "startend:end_checker": lambda text, a: text.strip().strip('"').lower().endswith(a["end_phrase"].strip().lower()),
    "startend:quotation": quoted,
}


def follows(kind: str, arguments: Arguments, reply: str) -> bool:
    """Whether a reply follows one instruction; an empty reply follows none. Raises KeyError (unknown kind or
    argument)."""
    return bool(reply.strip()) and CHECKS[kind](reply, arguments)


def loose_variants(reply: str) -> list[str]:
    """The reply and its seven edits of the loose criterion: without its first line, last line or both, and without
    *."""
    lines = reply.split("\n")
    cut = [reply, "\n".join(lines[1:]).strip(), "\n".join(lines[:-1]).strip(), "\n".join(lines[1:-1]).strip()]
    return list(dict.fromkeys([*cut, *(text.replace("*", "") for text in cut)]))
