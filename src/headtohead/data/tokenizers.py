"""Tokenizers: from text to ids and back. `learn` builds a `Vocabulary` from the training text only.

Id 0 is padding and id 1 is the unknown token, except in the vocabulary of a checkpoint. Encoding runs in Rust or numpy,
without Python code per token.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import functools
import itertools
import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from headtohead.data.files import one_line
from headtohead.errors import InputError
from headtohead.spec import Part, knob

if TYPE_CHECKING:
    from tokenizers import Tokenizer as HubTokenizer

PAD, UNKNOWN = 0, 1
SPECIAL = ("<pad>", "<unk>")
LONGEST_WORD = 2_000_000  # characters

# Byte pairs take a time that grows with the square of a word's length, and a text of Chinese is one word. So a run of
# 256 characters or more without white space, or of white space alone, is cut into pieces of 32.
LONG_RUN, PIECE = 256, 32


class Vocabulary(abc.ABC):
    """A trained tokenizer. `exact` means that decoding the ids of any text returns that text, byte for byte.

    Examples:
        >>> vocabulary = h2h.Character().learn(["we the people"])
        >>> ids = vocabulary.encode(["the people"])[0]
        >>> vocabulary.decode(ids)
        'the people'
    """

    size: int
    exact: bool
    pad: int = PAD
    unknown: int = UNKNOWN  # −1 if no token is unknown
    silent: tuple[int, ...] = (PAD, UNKNOWN)  # never generated

    @abc.abstractmethod
    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Return one array of ids for each text."""

    @abc.abstractmethod
    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids."""

    @abc.abstractmethod
    def names(self) -> list[str]:
        """Return the text to print for each id."""

    @abc.abstractmethod
    def state(self) -> Any:
        """Return the vocabulary as JSON, for the tokenizer's `restore`."""

    def encode_running(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Encode pieces of running text: no special tokens are added and nothing is cut off."""
        return self.encode(texts)

    def count(self, text: str) -> int:
        """Return the number of tokens of a text, including those that `encode` cuts off."""
        return len(self.encode([text])[0])

    @property
    def dtype(self) -> type[np.unsignedinteger]:
        return np.uint16 if self.size <= 1 << 16 else np.uint32


class Tokenizer(Part, family="tokenizer", of="data"):
    """How text becomes tokens."""

    against_unknown: ClassVar[str] = "the training text has too few of its words; give more text, or set tokenizer=Bpe"

    @abc.abstractmethod
    def learn(self, texts: Iterator[str]) -> Vocabulary:
        """Build the vocabulary of the training text."""

    @abc.abstractmethod
    def restore(self, state: Any) -> Vocabulary:
        """Rebuild a vocabulary from its `state`."""

    def resolved(self) -> Self:
        """Return the spec with everything filled in that decides the tokens."""
        return self


# -- words and byte pairs, with Hugging Face tokenizers ----------------------------------------------------------------


class HubVocabulary(Vocabulary):
    """A tokenizer of the tokenizers library. Its state is the JSON of the library, which transformers can load."""

    def __init__(self, tokenizer: HubTokenizer, exact: bool) -> None:
        self.tokenizer, self.exact = tokenizer, exact
        self.size = tokenizer.get_vocab_size()
        tokenizer.encode_special_tokens = True  # the characters <pad> in a text are not the padding token
        self._added = {i: t.content for i, t in tokenizer.get_added_tokens_decoder().items()}

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        with _no_panic():
            encoded = self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [np.array(e.ids, dtype=self.dtype) for e in encoded]

    def decode(self, ids: Iterable[int]) -> str:
        runs = itertools.groupby(
            map(int, ids), lambda i: i in self._added
        )  # added tokens are plain text, others are byte-level
        return "".join(
            "".join(self._added[i] for i in run)
            if added
            else self.tokenizer.decode(list(run), skip_special_tokens=False)
            for added, run in runs
        )

    def names(self) -> list[str]:
        words = [self.tokenizer.id_to_token(i) or "" for i in range(self.size)]
        return [_readable(w) for w in words] if self.tokenizer.decoder is not None else words

    def state(self) -> Any:
        return json.loads(self.tokenizer.to_str())


@contextlib.contextmanager
def _no_panic() -> Iterator[None]:
    """Turn a panic of the library's Rust code, which is not an Exception, into an InputError."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise _too_long(one_line(error)) from None


def _train(tokenizer: HubTokenizer, texts: Iterator[str], trainer: Any) -> None:
    """Train a tokenizer of the library. Ctrl-C and SIGTERM are heard meanwhile: they wait for the library in the main
    thread, but not for one that it waits for."""
    if threading.current_thread() is threading.main_thread():
        _in_a_thread(lambda: tokenizer.train_from_iterator(texts, trainer))
    else:
        with _no_panic():
            tokenizer.train_from_iterator(texts, trainer)


def _in_a_thread(work: Callable[[], None]) -> None:
    errors: list[BaseException] = []

    def run() -> None:
        try:
            with _no_panic():
                work()
        except BaseException as error:  # raised again below
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.1)
    if errors:
        raise errors[0]


def _cut_runs(texts: Iterable[str]) -> Iterator[str]:
    """The texts in pieces; a text without long runs is one piece."""
    for text in texts:
        at = 0
        for run in _LONG_RUN.finditer(text):
            yield text[at : run.start()]
            yield from (text[n : min(n + PIECE, run.end())] for n in range(run.start(), run.end(), PIECE))
            at = run.end()
        yield text[at:]


_LONG_RUN = re.compile(rf"\S{{{LONG_RUN},}}|\s{{{LONG_RUN},}}")


def _too_long(why: str) -> InputError:
    return InputError(f"the text cannot be cut into words ({why}): break its longest line, or set tokenizer=Byte")


def _refuse_long_words(texts: Iterable[str]) -> None:
    """Refuse very long words: the regular expressions of the library panic at about five million characters."""
    for text in texts:
        if len(text) > LONGEST_WORD:
            longest = max(map(len, text.split()), default=0)
            if longest > LONGEST_WORD:
                raise _too_long(f"{longest:,} characters without a space")


def _readable(piece: str) -> str:
    """Return a byte-level piece as text. Bytes that are not a whole character become \\xNN."""
    alphabet = byte_of()
    try:
        return bytes(alphabet[c] for c in piece).decode("utf-8", "backslashreplace")
    except KeyError:  # an added token, which is not byte-level
        return piece


@functools.cache
def byte_of() -> dict[str, int]:
    """Return GPT-2's alphabet for bytes: printable bytes are themselves, the others are characters from 256 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return {chr(b): b for b in printable} | {chr(256 + n): b for n, b in enumerate(others)}


def _tokenizer(state: Any) -> HubTokenizer:
    from tokenizers import Tokenizer as HubTokenizer

    try:
        return HubTokenizer.from_str(json.dumps(state))
    except Exception as error:  # the library raises a bare Exception
        raise InputError(
            f"tokenizer.json cannot be read ({one_line(error)}): copy the run or checkpoint again"
        ) from None


class Word(Tokenizer):
    """Words, numbers and punctuation marks; endings such as 's and n't are separate tokens. White space is lost."""

    equation: ClassVar[str] = "ids of the words seen in training, most frequent first; all others are one id"
    reference: ClassVar[str] = "the speeches documents; Penn Treebank's way with contractions"

    vocab: int | None = knob(default=None, ge=3, help="largest number of tokens; none: every word")
    least: int = knob(default=1, ge=1, help="words that occur less often in training are unknown")
    lower: bool = knob(default=False, help="convert to lower case")

    PATTERN: ClassVar[str] = "|".join(
        (
            r"(?i)n't\b|'(?:s|re|ve|ll|m|d)\b|\w+?(?=n't\b)",  # do n't, it 's
            r"(?:[a-z]\.){2,}",  # U.S.
            r"\d+(?:[.,]\d+)*",  # 1,000.5
            r"\w+(?:-\w+)*",  # long-term
            r"--|\.\.\.|[^\w\s]",
        )
    )

    def learn(self, texts: Iterator[str]) -> Vocabulary:
        from tokenizers import Regex, models, normalizers, pre_tokenizers, trainers
        from tokenizers import Tokenizer as HubTokenizer

        tokenizer = HubTokenizer(models.WordLevel(unk_token=SPECIAL[UNKNOWN]))
        if self.lower:
            tokenizer.normalizer = normalizers.Lowercase()
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(self.PATTERN), behavior="removed", invert=True)
        trainer = trainers.WordLevelTrainer(
            vocab_size=self.vocab or 1 << 31,
            min_frequency=self.least,
            special_tokens=list(SPECIAL),
            show_progress=False,
        )
        _train(tokenizer, _checked(texts), trainer)
        return WordVocabulary(tokenizer, exact=False)

    def restore(self, state: Any) -> Vocabulary:
        return WordVocabulary(_tokenizer(state), exact=False)


class Symbols(Tokenizer):
    """What white space parts is one token, numbered in the order of the training text: for synthetic tasks."""

    equation: ClassVar[str] = "id = 2 + rank of the symbol's first occurrence"
    reference: ClassVar[str] = "no method: every symbol has its own id"

    def learn(self, texts: Iterator[str]) -> Vocabulary:
        from tokenizers import Tokenizer as HubTokenizer
        from tokenizers import models, pre_tokenizers

        symbols = dict.fromkeys([*SPECIAL, *(symbol for text in texts for symbol in text.split())])
        ids = {symbol: n for n, symbol in enumerate(symbols)}
        tokenizer = HubTokenizer(models.WordLevel(ids, unk_token=SPECIAL[UNKNOWN]))
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        return HubVocabulary(tokenizer, exact=False)

    def restore(self, state: Any) -> Vocabulary:
        return HubVocabulary(_tokenizer(state), exact=False)


def _checked(texts: Iterator[str]) -> Iterator[str]:
    for text in texts:
        _refuse_long_words([text])
        yield text


class WordVocabulary(HubVocabulary):
    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        _refuse_long_words(texts)
        return super().encode(texts)

    def decode(self, ids: Iterable[int]) -> str:
        words = " ".join(self.tokenizer.id_to_token(int(i)) or "" for i in ids)
        return re.sub(r" (n't\b|'\w+|[.,;:!?%)\]])", r"\1", words)


class LongestVocabulary(HubVocabulary):
    """The longest piece that fits, from the left."""

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        found = super().encode(["" if _LONG_RUN.search(text) else text for text in texts])
        for n, text in enumerate(texts):
            if text and not len(found[n]):
                found[n] = np.concatenate(super().encode(list(_cut_runs([text]))))
        return found


class Bpe(Tokenizer):
    """Byte pairs: starts with bytes and joins the most frequent pair of pieces until the vocabulary is full. To learn
    from text without spaces, such as Chinese, runs of 256 characters or more are cut into pieces of 32."""

    equation: ClassVar[str] = "merge the most frequent adjacent pair, vocab − alphabet times"
    reference: ClassVar[str] = "Sennrich et al. 2016; Radford et al. 2019 for the byte level"

    vocab: int = knob(default=2000, ge=3, help="size of the vocabulary, special tokens and alphabet included")
    alphabet: Literal["bytes", "seen"] = knob(
        default="bytes", help="bytes: all 256, so no token is unknown; seen: only those of the training text"
    )
    special: tuple[str, ...] = knob(default=(), help="texts that are always one token, such as <|endoftext|>")
    match: Literal["merges", "longest"] = knob(
        default="merges", help="merges: in the learned order; longest: the longest piece that fits, from the left"
    )
    newlines: bool = knob(default=True, help="encode line ends; false: they only end a word and are lost")
    sample: int = knob(default=20_000_000, ge=1000, help="number of characters, from the start, to learn from")

    def check(self) -> None:
        if self.alphabet == "bytes" and self.vocab < 256 + len(SPECIAL) + len(self.special):
            raise InputError(
                f"Bpe(vocab={self.vocab}) cannot hold 256 bytes and {len(SPECIAL) + len(self.special)} special tokens: "
                "enlarge vocab, or set alphabet='seen'"
            )

    def learn(self, texts: Iterator[str]) -> Vocabulary:
        from tokenizers import Regex, decoders, models, pre_tokenizers, trainers
        from tokenizers import Tokenizer as HubTokenizer

        all_bytes = self.alphabet == "bytes"
        unknown = SPECIAL[UNKNOWN]
        tokenizer = HubTokenizer(models.BPE(unk_token=None if all_bytes else unknown))
        pieces: pre_tokenizers.PreTokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        if not self.newlines:
            lines = pre_tokenizers.Split(Regex(r"[\r\n]+"), behavior="removed")
            pieces = pre_tokenizers.Sequence([lines, pieces])
        tokenizer.pre_tokenizer = pieces
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=self.vocab,
            special_tokens=[*SPECIAL, *self.special],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if all_bytes else [],
            show_progress=False,
        )
        _train(tokenizer, _cut_runs(_first(texts, self.sample)), trainer)
        if self.match == "longest":  # WordPiece without a prefix is greedy from the left
            tokenizer.model = models.WordPiece(
                tokenizer.get_vocab(), unk_token=unknown, continuing_subword_prefix="", max_input_chars_per_word=1 << 30
            )
        state = json.loads(tokenizer.to_str())
        for token in state["added_tokens"]:
            token["special"] = (
                token["content"] in SPECIAL
            )  # the user's special tokens are recognised in texts, ours are not
        return self.restore(state)

    def restore(self, state: Any) -> Vocabulary:
        kind = LongestVocabulary if self.match == "longest" else HubVocabulary
        return kind(_tokenizer(state), exact=self._exact)

    @property
    def _exact(self) -> bool:
        return self.alphabet == "bytes" and self.newlines


def _first(texts: Iterator[str], characters: int) -> Iterator[str]:
    for text in texts:
        yield text[:characters]
        characters -= len(text)
        if characters <= 0:
            return


# -- the tokenizer of a checkpoint -------------------------------------------------------------------------------------


class Pieces(Tokenizer):
    """The tokenizer of a pretrained checkpoint, with the special tokens that it adds to a text. It learns nothing."""

    equation: ClassVar[str] = "[CLS] pieces of the text [SEP], or as in the checkpoint; at most `longest` tokens"
    reference: ClassVar[str] = "Wu et al. 2016 (WordPiece); Radford et al. 2019 (byte pairs); Kudo 2018 (unigrams)"

    against_unknown: ClassVar[str] = (
        "the checkpoint's tokenizer lacks them; use a checkpoint that was trained on such texts"
    )

    checkpoint: str = knob(default="minilm", identity=False, help="minilm, a folder, or a model of the Hub")
    longest: int = knob(default=128, ge=3, help="longer texts are cut at their end; special tokens count")
    content: str = knob(default="", help="fingerprint of the checkpoint; filled in when a run is created")

    def resolved(self) -> Self:
        """Return the spec with the fingerprint of the checkpoint. Downloads the checkpoint if needed."""
        from headtohead.data.pretrained_checkpoints import find

        content = find(self.checkpoint).fingerprint
        if self.content and self.content != content:
            raise InputError(
                f"{self.checkpoint} has changed since this run was created: restore the old checkpoint, or train again"
            )
        return dataclasses.replace(self, content=content)

    def learn(self, texts: Iterator[str]) -> Vocabulary:
        from headtohead.data.pretrained_checkpoints import find

        found = find(self.checkpoint)
        split = bool(found.tokenizer_config.get("split_special_tokens", False))
        size = found.config.get("vocab_size") if isinstance(found.config.get("vocab_size"), int) else None
        return self.restore({"tokenizer": found.tokenizer(), "pad": found.pad, "size": size, "split": split})

    def restore(self, state: Any) -> Vocabulary:
        try:
            tokenizer, pad, size = state["tokenizer"], state["pad"], state["size"]
        except (TypeError, KeyError):
            raise InputError(
                "the run's tokenizer.json is not the tokenizer of a checkpoint: copy the run again"
            ) from None
        return PieceVocabulary(_tokenizer(tokenizer), state, self.longest, pad, size)


class PieceVocabulary(HubVocabulary):
    """Encodes like the tokenizer of the checkpoint, including special tokens in a text; decodes without them."""

    def __init__(self, tokenizer: HubTokenizer, state: Any, longest: int, pad: int | None, size: int | None) -> None:
        super().__init__(tokenizer, exact=False)
        largest = max(tokenizer.get_vocab().values(), default=-1)
        if size is not None and largest >= size:
            raise InputError(
                f"the tokenizer has a token with id {largest} and the model has {size} embeddings: "
                "put the tokenizer.json of this checkpoint beside its weights"
            )
        self.size = size or largest + 1  # a model may have more embeddings than tokens
        pad = pad if pad is not None and pad < self.size else None
        model = state["tokenizer"]["model"]
        named = model.get("unk_token")
        unknown = tokenizer.token_to_id(named) if isinstance(named, str) else model.get("unk_id")
        self.unknown = -1 if unknown is None else unknown
        self.pad = next(i for i in (pad, unknown, self.size - 1) if i is not None)  # the last id is rarely a word
        self.silent = tuple(sorted({i for i in (pad, unknown) if i is not None}))
        self._state = state
        self._longest = longest
        tokenizer.encode_special_tokens = state.get("split", False)  # whether special tokens in a text are plain text
        tokenizer.no_padding()

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        return self._encoded(texts, self._longest, special=True)

    def encode_running(self, texts: Sequence[str]) -> list[np.ndarray]:
        return self._encoded(texts, None, special=False)

    def count(self, text: str) -> int:
        return len(self._encoded([text], None, special=True)[0])

    def _encoded(self, texts: Sequence[str], longest: int | None, special: bool) -> list[np.ndarray]:
        _refuse_long_words(texts)
        if longest is None:
            self.tokenizer.no_truncation()
        else:
            self.tokenizer.enable_truncation(longest)
        with _no_panic():
            encoded = self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=special)
        return [np.array(e.ids, dtype=self.dtype) for e in encoded]

    def decode(self, ids: Iterable[int]) -> str:
        return self.tokenizer.decode([int(i) for i in ids])

    def names(self) -> list[str]:
        words = [self.tokenizer.id_to_token(i) or "" for i in range(self.size)]
        kinds = json.dumps(self._state["tokenizer"].get("decoder"))
        if "ByteLevel" in kinds:
            return [_readable(w) for w in words]
        return [w.replace("▁", " ") for w in words] if "▁" in kinds or "\\u2581" in kinds else words

    def state(self) -> Any:
        return self._state


# -- characters and bytes, with numpy ----------------------------------------------------------------------------------


class Character(Tokenizer):
    """Every character of the training text is a token."""

    equation: ClassVar[str] = "id = 2 + rank of the code point"
    reference: ClassVar[str] = "Karpathy 2015, The Unreasonable Effectiveness of Recurrent Neural Networks"

    def learn(self, texts: Iterator[str]) -> Vocabulary:
        seen = np.zeros(0x110000, dtype=bool)
        for text in texts:
            seen[_points(text)] = True
        return CharacterVocabulary(np.flatnonzero(seen))

    def restore(self, state: Any) -> Vocabulary:
        try:
            return CharacterVocabulary(np.array([ord(c) for c in state], dtype=np.int64))
        except TypeError:
            raise InputError("the run's tokenizer.json is not a list of characters: copy the run again") from None


def _points(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


class CharacterVocabulary(Vocabulary):
    exact = False  # characters that are not in the training text are unknown

    def __init__(self, points: np.ndarray) -> None:
        self.points = points
        self.size = len(SPECIAL) + len(points)
        self._id = np.full(0x110000, UNKNOWN, dtype=self.dtype)
        self._id[points] = np.arange(len(points)) + len(SPECIAL)

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        return [self._id[_points(text)] for text in texts]

    def decode(self, ids: Iterable[int]) -> str:
        names = self.names()
        return "".join(names[int(i)] for i in ids)

    def names(self) -> list[str]:
        return [*SPECIAL, *map(chr, self.points.tolist())]

    def state(self) -> Any:
        return "".join(map(chr, self.points.tolist()))


class Byte(Tokenizer):
    """Every byte of the UTF-8 text is a token. It learns nothing, and no token is unknown."""

    equation: ClassVar[str] = "id = 2 + byte"
    reference: ClassVar[str] = "Xue et al. 2022, ByT5"

    def learn(self, texts: Iterator[str]) -> Vocabulary:
        return ByteVocabulary()

    def restore(self, state: Any) -> Vocabulary:
        return ByteVocabulary()


class ByteVocabulary(Vocabulary):
    exact = True
    size = len(SPECIAL) + 256

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        return [
            np.frombuffer(t.encode("utf-8", "surrogatepass"), np.uint8).astype(np.uint16) + len(SPECIAL) for t in texts
        ]

    def decode(self, ids: Iterable[int]) -> str:
        return bytes(int(i) - len(SPECIAL) for i in ids if i >= len(SPECIAL)).decode("utf-8", "replace")

    def names(self) -> list[str]:
        return [*SPECIAL, *(chr(b) if 32 <= b < 127 else f"\\x{b:02x}" for b in range(256))]

    def state(self) -> Any:
        return "bytes"
