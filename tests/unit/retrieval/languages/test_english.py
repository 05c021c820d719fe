"""Which texts are put into English, and what of them."""

from __future__ import annotations

from typing import Any

import pytest

from armory.retrieval.languages.english import readings, takes_long
from armory.retrieval.languages.glossary import READ, Glossary
from armory.retrieval.lexical.bm25 import Fields, LexicalIndex
from armory.retrieval.lexical.known_words import KnownWords

TOOLS = KnownWords(LexicalIndex().freeze())


def in_english(text: str, words: KnownWords) -> str:
    return readings(text, words)[0]


def known(*names: str) -> KnownWords:
    index = LexicalIndex()
    for number, name in enumerate(names):
        index.add(str(number), Fields(name))
    return KnownWords(index.freeze())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Zeig mir die Dateien im Ordner", ["show", "file", "folder"]),
        ("Wie wird das Wetter morgen in Berlin?", ["weather", "tomorrow", "Berlin?"]),
        ("loesche die E-Mails von Anna", ["delete", "email", "Anna"]),
        ("¿Qué tiempo hace mañana en Madrid?", ["weather", "tomorrow", "Madrid?"]),
        ("envia un correo a ana@example.com", ["send", "email", "ana@example.com"]),
        ("donne-moi l'heure à Tokyo", ["give me the", "time", "Tokyo"]),
        ("mets à jour la feuille de calcul", ["update", "spreadsheet"]),
        ("Küldj egy e-mailt Annának", ["send", "email"]),
        ("keresd meg a fájlokat a mappában", ["search", "file", "folder"]),
        ("cerca voli economici per Roma", ["search", "flight", "rome"]),
        ("crie uma nova pasta", ["create", "new", "folder"]),
        ("把这个文件发给欧阳锋", ["file", "send", "欧阳锋"]),
        ("明天北京的天气", ["tomorrow", "weather"]),
        ("フォルダの中のファイルを表示して", ["folder", "file", "show"]),
        ("明日の東京の天気を教えてください", ["tomorrow", "weather"]),
        ("내일 서울 날씨 알려줘", ["tomorrow", "weather"]),
        ("이 폴더에 있는 파일을 삭제해 줘", ["folder", "file", "delete"]),
        ("Покажи файлы в папке", ["show", "file", "folder"]),
        ("какая завтра погода в Москве?", ["weather", "tomorrow"]),
        ("открой issue в repo armory: login broken", ["open issue", "repo armory: login broken"]),
        ("mach einen checkout vom neuen Branch", ["checkout", "new"]),
        ("sende Herrn Müller die Rechnung", ["send", "Müller", "invoice"]),
        ("décale la réunion à demain", ["postpone", "meeting", "tomorrow"]),
        ("verlege den Termin auf Freitag", ["reschedule", "friday"]),
        ("aplaza la reunión a mañana", ["postpone", "meeting"]),
        ("rimanda la riunione a domani", ["postpone", "meeting"]),
        ("adia a reunião para amanhã", ["postpone", "meeting"]),
        ("会議を延期して", ["postpone", "meeting"]),
        ("회의 연기해줘", ["postpone", "meeting"]),
        ("wer ist online?", ["who is online"]),
        ("Zeig mir alle MitarbeiterInnen mit listUsers", ["show", "all", "employee", "listUsers"]),
        ("wo ist der bug", ["where is the bug"]),
        ("que hay hoy", ["today"]),
        ("ki van itt", ["who is here"]),
        ("Bu klasördeki dosyalar\u0131 listele", ["folder", "file", "list"]),
        ("Yarin saat 10'a bir toplanti ekle", ["tomorrow", "meeting", "add"]),
        ("Видали подію в п'ятницю з календаря", ["delete", "event", "Friday", "calendar"]),
        ("Покажи файлы за последнюю неделю", ["show", "file", "week"]),
        ("Smaž páteční událost z kalendáře", ["delete", "Friday", "event", "calendar"]),
        ("Buatkan faktur baru untuk pelanggan", ["create", "invoice", "new", "customer"]),
        ("Liệt kê tất cả tệp trong thư mục này", ["list all file", "folder"]),
        ("Liet ke tat ca tep trong thu muc nay", ["list all file", "folder"]),
        ("Tìm nhà hàng ở Hà Nội", ["restaurant", "Hà Nội"]),
        ("احذف الملفات من المجلد", ["delete", "file", "from", "folder"]),
        ("كم الساعة الآن في طوكيو؟", ["what time is it", "طوكيو?"]),
        ("हिंदी में फाइलें दिखाओ", ["Hindi in file show"]),
        ("पिछले घंटे की त्रुटियाँ ढूँढो", ["last hour", "error search"]),
        ("सोमवार की मीटिंग रद्द करो।", ["Monday", "meeting cancel"]),
        ("kal ki meeting cancel kar do", ["tomorrow", "meeting cancel"]),
        ("mujhe sabhi files dikhao", ["me all files show"]),
        ("mach das Licht im Wohnzimmer aus", ["turn off the light in living room"]),
        ("leg eine Aufgabe an: Angebot schreiben", ["create a task", ": offer"]),
        ("sag das Treffen ab und ruf Bob an", ["cancel the", "and call phone Bob"]),
        ("zet de lamp in de keuken uit", ["turn off disable the light"]),
    ],
)
def test_other_languages_are_put_into_english(text: str, said: list[str]) -> None:
    found = in_english(text, TOOLS)
    for word in said:
        assert word in found, found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "?!",
        "what is the weather in San Sebastián de los Reyes",
        "book a table at Osteria della Luna",
        "El Niño forecast",
        "creat a new branhc",
        "comit my chnges",
        "deeploy",
        "kubectl rollout undo nginx",
        "resume parser for Ärzte",
        "résumé parser",
        "weather in São Paulo",
        "lo mein recipe",
        "go to url",
        "rm -rf src",
        "css js html",
        "do re mi",
        "La La Land",
        "grand prix schedule",
        "δείξε μου τα αρχεία στον φάκελο",
        "ফাইলগুলো দেখাও",
        "नमस्ते, बहुत धन्यवाद",
        "shukriya bhai",
        "my mailmodo account",
        "createInvoice",
        "listPods",
        "call findUser, then statusCheck",
        "SiteBay server locations",
        "teşekkür ederim",
        "cảm ơn bạn",
        "danke schön",
        "muchas gracias",
        "谢谢",
        "спасибо",
        "ありがとう",
        "안녕하세요",
    ],
)
def test_what_is_english_or_unknown_or_mere_talk_stays(text: str) -> None:
    assert in_english(text, TOOLS) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lösche /home/datei/ordner.txt", "/home/datei/ordner.txt"),
        ("zeige https://example.com/datei an", "https://example.com/datei"),
        ("suche nach --datei und `datei_name`", "datei_name"),
    ],
)
def test_paths_addresses_and_identifiers_stay(text: str, said: str) -> None:
    assert said in in_english(text, TOOLS)


def test_names_that_begin_like_a_word_stay_where_nouns_are_written_small() -> None:
    assert "search" in in_english("abre el archivo de buscarini", TOOLS)
    assert "Buscarini" in in_english("abre el archivo de Buscarini", TOOLS)


def test_tools_of_the_same_language_are_asked_in_it() -> None:
    german = known("datei loeschen", "datei lesen", "ordner zeigen")
    assert in_english("lies die datei im ordner", german) != in_english(
        "lies die datei im ordner", TOOLS
    )
    assert "datei" in in_english("lies die datei im ordner", german)


def test_what_is_spelt_alike_in_english_makes_no_tools_speak_a_language() -> None:
    assert in_english("wer ist online?", known("list_online")) == "who is online?"


def test_a_word_that_few_tools_have_is_said_twice() -> None:
    mixed = known("datei lesen", "read file", "write file", "delete file")
    found = in_english("lösche die datei", mixed)
    assert "file datei" in found


@pytest.mark.parametrize("text", ["zeig " * 1_600, "文件" * 4_000, "l'" * 4_000, "ä" * 8_000])
def test_of_a_long_text_not_every_word_is_looked_up(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0
    find, within, knows = Glossary.find, Glossary.within, Glossary.knows

    def counted(method: Any) -> Any:
        def call(*args: Any) -> Any:
            nonlocal asked
            asked += 1
            return method(*args)

        return call

    for name, method in (("find", find), ("within", within), ("knows", knows)):
        monkeypatch.setattr(Glossary, name, counted(method))
    assert in_english(text, TOOLS)
    assert asked < 1_000


def test_glossaries_are_read_when_they_are_needed() -> None:
    READ.clear()
    assert not takes_long("show me the files in this folder")
    assert takes_long("zeig mir die Dateien im Ordner")
    assert takes_long("天气")
    in_english("show me the files in this folder", TOOLS)
    assert not READ
    in_english("zeig mir die Dateien im Ordner", TOOLS)
    assert "de" in READ
    assert "zh" not in READ
    assert not takes_long("zeig mir die Dateien im Ordner")
