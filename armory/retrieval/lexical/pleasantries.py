"""Small talk that asks for nothing: thanks, greetings, agreement, in several languages.

Owns: recognising a text that consists of it alone. Never imports anything of Armory but the
tokenizer.

Only such turns stand here as cannot be a wish by themselves: "forget it", but no "forget".
"""

from __future__ import annotations

import re

from armory.retrieval.lexical.text import fold

_WORDS = """
hi hello hey there ok okay thanks thank cheers you so very much a lot good great nice cool well done
perfect morning afternoon evening night bye goodbye see later talk tomorrow yes yep no nope sure
sorry please welcome lol haha who how what what's up are is it that that's was really helpful all
for now have day weekend
nevermind understood noted right exactly wow awesome brilliant fantastic amazing excellent wonderful
alright hm hmm um oh ah thx ty np ttyl congrats congratulations indeed absolutely definitely agreed
appreciated soon too
danke schön sehr vielen dank bitte guten gute hallo servus moin tschüss super toll prima genau ja
nein wunderbar perfekt
merci beaucoup bien bonjour bonsoir salut coucou oui non parfait génial pardon désolé
gracias muchas hola buenas adiós perfecto genial vale claro sí perdón entendido
obrigado obrigada muito olá oi tchau sim não perfeito desculpe
grazie mille ciao buongiorno buonasera buonanotte arrivederci prego perfetto certo sì scusa
köszönöm szépen köszi kösz szia sziasztok szervusz helló viszlát viszontlátásra szívesen kérem
kérlek rendben oké igen nem bocsánat bocs nagyszerű szuper tökéletes
谢谢 谢谢你 谢谢您 多谢 感谢 非常感谢 你好 您好 早上好 下午好 晚上好 晚安 再见 拜拜 好的 好 是的 不
不客气 没关系 没问题 对不起 抱歉 明白了 知道了 太好了 辛苦了 哈哈
ありがとう ありがとうございます どうも こんにちは こんばんは おはよう おはようございます さようなら
はい いいえ すみません 了解 了解です わかりました おやすみ
助かりました 助かります お疲れ様です お疲れ様でした
감사합니다 고마워요 고마워 안녕하세요 안녕 네 아니요 죄송합니다 알겠습니다 좋아요
спасибо большое привет здравствуйте пока пожалуйста да нет хорошо отлично понятно извините
дякую дуже привіт вітаю бувай ласка так ні добре чудово зрозуміло вибачте
díky děkuji děkuju moc ahoj ano ne dobře skvělé jasně promiň
teşekkürler merhaba selam günayd\u0131n tamam evet hay\u0131r harika anlad\u0131m
makasih halo oke ya tidak bagus mantap maaf
شكرا جزيلا مرحبا أهلا نعم لا حسنا ممتاز عفوا آسف
धन्यवाद शुक्रिया नमस्ते नमस्कार बहुत आपका आपको हां हाँ नहीं जी ठीक अच्छा बढ़िया है
dhanyavaad dhanyavad shukriya namaste namaskar theek thik accha acha haan bahut aapka bhai hai
"""
_TURNS = """
never mind|got it|i see|my bad|no worries|no problem|no need|forget it|sounds good|makes sense
|that works|works for me|you're welcome|my pleasure|take care|love it|i appreciate it|fair enough
|of course|same here|me too|one moment|just a moment|just a second|just a minute|hold on|go on
|go ahead|good luck|happy birthday|merry christmas|have fun|good point|nice one|not bad|not now
|great job|good job|nice job|great work|good work|nice work|great stuff|all set|why not|i'm fine
|gern geschehen|guten morgen|guten tag|guten abend|gute nacht|auf wiedersehen|bis bald
|bis später|bis morgen|alles klar|alles gut|kein problem|schon gut|sehr gut|wie geht's
|schönen tag|schönes wochenende
|au revoir|à bientôt|à demain|bonne nuit|bonne journée|bonne soirée|de rien|d'accord
|pas de problème|pas de souci|très bien|s'il te plaît|s'il vous plaît|ça va|bien sûr
|buenos días|buenas tardes|buenas noches|hasta luego|hasta mañana|hasta pronto|de nada|por favor
|muy bien|de acuerdo|lo siento|qué tal|cómo estás|no hay problema|no pasa nada
|bom dia|boa tarde|boa noite|até logo|até amanhã|tudo bem|com certeza
|buona notte|a presto|a domani|per favore|va bene|mi dispiace|come stai|di niente
|jó napot|jó reggelt|jó estét|jó éjszakát|jól van|hogy vagy|semmi baj|nincs mit
|до свидания|добрый день|доброе утро|добрый вечер|спокойной ночи
|будь ласка|до побачення|добрий день|добрий ранок|dobrý den|dobré ráno|dobrou noc|na shledanou
|nemáš zač|není zač|teşekkür ederim|çok teşekkürler|sağ ol|iyi günler|iyi geceler|görüşürüz
|rica ederim|terima kasih|terima kasih banyak|selamat pagi|selamat siang|selamat malam
|sampai jumpa|sama-sama
|cảm ơn|cảm ơn bạn|xin chào|chào bạn|tạm biệt|vâng|được rồi|không có gì
|السلام عليكم|صباح الخير|مساء الخير|مع السلامة|شكرا لك
"""
_ANY = "|".join(  # turns first: what a word of one would match alone is not looked at again
    re.escape(fold(one.strip().replace("\n", ""))) for one in [*_TURNS.split("|"), *_WORDS.split()]
)
_PLEASANTRY = re.compile(rf"(?:\W*+\b(?:{_ANY})(?![\w']))*+\W*+")


def is_pleasantry(text: str) -> bool:
    """Whether a text is a mere pleasantry: "ok cool", "danke schön", "no worries, thanks!"."""
    return _PLEASANTRY.fullmatch(fold(text).replace("\u2019", "'")) is not None
