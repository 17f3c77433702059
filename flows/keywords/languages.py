"""Which languages there are, and their stop words.

Closed-class words of Snowball languages that the package stop-words has no list for.

Articles, pronouns, conjunctions, prepositions or postpositions, particles, and forms of to be,
written down for this project.
"""

from __future__ import annotations

import unicodedata
from functools import cache

import Stemmer

from flows.faults import InputError

_ARMENIAN = """
    և ու կամ բայց որ եթե երբ որտեղ ինչ ինչպես ինչու ով որը որի որոնք ես դու նա մենք դուք
    նրանք իմ քո նրա մեր ձեր նրանց իր այս այդ այն սա դա է են եմ ենք եք էր էին եղել լինել չի
    չեն չէ ոչ այո մեջ վրա տակ հետ համար մասին մինչև առանց ըստ նաև միայն շատ բոլոր ամեն մի
    մեկ
"""
_BASQUE = """
    eta edo ez bai da dira zen ziren du dute zuen zuten dut dugu duzu naiz gara zara hau
    hori hura hauek horiek haiek bat batzuk ere baina baino baizik bezala nola non noiz nor
    zer zein zergatik ni hi zu gu zuek bera bere nire zure gure haien beste guzti guztia
    guztiak asko gutxi oso izan egon ari behar ahal arte aurrean azpian barruan kontra gabe
    ondoren lehen orain hemen hor han beraz hala horrela
"""
_ESPERANTO = """
    la kaj aŭ sed ke ĉar se kiel kiam kie kial kia kiu kiuj kiun kio kion kies mi vi li ŝi
    ĝi ni ili oni si min vin lin nin ilin sin mia via lia ŝia ĝia nia ilia sia tia tiu tiuj
    tio tion ĉi ĉia ĉiu ĉiuj ĉio iu iuj io neniu nenio de da al en el ĉe por pro per kun sen
    sur sub super tra trans inter antaŭ post dum ĝis kontraŭ laŭ pri krom estas estis estos
    estus esti ne jes nek ankaŭ nur jam ankoraŭ tre pli plej tiel tiam tie tial nun do ĉu
"""
_ESTONIAN = """
    ja või ega aga kuid ning et kui nagu kuna sest vaid on oli olid ole oleks olema olla
    pole ei ma mina mu minu sa sina su sinu ta tema me meie te teie nad nemad nende neid see
    need selle seda sellest sellel too oma ise mis mille mida kes kelle keda kus kuhu millal
    kuidas miks ka veel juba siis nii väga ainult iga kõik kõige üks mõni peale all alla üle
    läbi pärast enne ilma koos kuni poolt vastu juures jaoks
"""
_IRISH = """
    a ab ag agus ach am an anois aon ar arbh as atá ba bhí bhfuil bhur bíonn cad cé chomh
    chuig conas dá de den do don é ea eile faoi féin fuair gach gan go i iad idir in inár
    ina í is le lena leis ler mar mé mo mura ná nach ní níl níor nó nuair ó ón os roimh sa
    san sé sí seo sibh sin sinn siad siúd sna tá tar tríd trí tú um uile
"""
_LITHUANIAN = """
    ir bei o bet ar arba kad kaip kai jei jeigu nes tai tas ta tie tos to tą šis ši šie šios
    šio jis ji jie jos jo jų jam jai juos aš tu mes jūs mano tavo savo mūsų jūsų yra buvo
    bus būti nėra esu esi ne nei į iš ant po prie prieš per su be už nuo iki dėl apie tarp
    pagal kuris kuri kurie kurios kurį kurių kas ko ką kur kada kodėl dar jau tik net labai
    taip pat čia ten vis visi visas visa kitas kita kiti
"""
_NEPALI = """
    र को का की मा ले लाई बाट देखि सम्म छ छन् छैन हो होइन हुन् हुन्छ थियो थिए भएको भएका भयो
    पनि यो त्यो यी ती म हामी तिमी तपाईं ऊ उनी उनीहरू उनको उसको मेरो हाम्रो यस त्यस के कुन
    किन कसरी कहाँ कहिले जब जुन जो तर वा अथवा तथा एक नै सबै धेरै लागि सँग भने भनेर
"""
_SERBIAN = """
    i a ali ili nego već da ne ni u na od do iz sa s za po pod nad pred o kod uz kroz bez
    zbog prema između je su sam si smo ste nije nisu bio bila bilo bili bile biti bi će ću
    ćeš ćemo ćete se to taj ta te ti tog tom ovaj ova ovo ovi ove ovog onaj ona ono oni one
    koji koja koje kojih kojim kojem što šta ko koga kome kako kada kad gde zašto jer ako
    kao samo još vrlo veoma sve svi svoj ja mi vi on ga mu njega njoj nju njih im moj tvoj
    naš vaš njegov njen njihov
"""
_SESOTHO = """
    le ho ha ka ke ea ya oa wa ba la tsa sa e o mme empa hore kapa tse tseo se seo bo li di
    eo yeo bao bona yena rona lona wena uena nna ena hona sena tsena teng joalo jwalo joang
    jwang hape feela fela kaofela haholo moo mona mang eng neng hobane hoba ne
"""
_TAMIL = """
    மற்றும் அல்லது ஆனால் என்று என்ற என இந்த அந்த எந்த ஒரு இது அது எது இவை அவை அவர் அவள் அவன்
    அவர்கள் நான் நாம் நாங்கள் நீ நீங்கள் எனது என் உன் அவரது உள்ளது உள்ள இருந்து இல்லை ஆகும்
    மேலும் கொண்டு மூலம் போன்ற என்ன எப்படி எங்கே ஏன் எப்போது யார் பல சில மிகவும் தான் கூட வரை
    பின் முன் பற்றி
"""
_YIDDISH = """
    און אָדער אבער אָבער אַז אז דער די דאָס דאס דעם אַ אַן א אן איז זענען זײַנען געווען איך
    דו ער זי עס מיר איר זיי מיך דיך אים זיך מײַן דײַן זײַן אונדזער אין אויף צו פֿון פון מיט
    פֿאַר פאַר בײַ ביי נאָך איבער אונטער ביז אָן ווי ווען וווּ וואָס וואס ווער נישט ניט קיין
    אויך נאָר נאר זייער דאָ דאָרט אַלע האָט האָבן האט וועט אויב ווײַל
"""
_CYRILLIC = dict(
    zip(
        ["lj", "nj", "dž", *"abvgdđežzijklmnoprstćufhcčš"],
        ["љ", "њ", "џ", *"абвгдђежзијклмнопрстћуфхцчш"],
        strict=True,
    )
)


def _in_cyrillic(word: str) -> str:
    """Return a Serbian word of Latin letters in Cyrillic ones."""
    for latin, letter in _CYRILLIC.items():
        word = word.replace(latin, letter)
    return word


LISTS = {
    name: frozenset(text.split())
    for name, text in {
        "armenian": _ARMENIAN,
        "basque": _BASQUE,
        "esperanto": _ESPERANTO,
        "estonian": _ESTONIAN,
        "irish": _IRISH,
        "lithuanian": _LITHUANIAN,
        "nepali": _NEPALI,
        "serbian": _SERBIAN + " ".join(map(_in_cyrillic, _SERBIAN.split())),
        "sesotho": _SESOTHO,
        "tamil": _TAMIL,
        "yiddish": _YIDDISH,
    }.items()
}
"""Stop words by language."""


ENGLISH = "english"
OTHER_LANGUAGE = "other"
"""Any language without a stemmer and a list of stop words: words stay as they are."""
# Closed-class words of English and the forms of its auxiliaries, written down for this
# project. With tags the list mostly removes be, have and do, which Penn tags as verbs.
_ENGLISH = """
    a about above across after afterwards again against all almost alone along already also
    although always am among amongst an and another any anybody anyone anything anywhere are aren
    around as at away be became because become becomes becoming been before beforehand being below
    beside besides between beyond both but by can cannot could couldn did didn do does doesn doing
    don done down during each either else elsewhere enough etc even ever every everybody everyone
    everything everywhere except few for from further furthermore had hadn has hasn have haven
    having he hence her here hers herself him himself his how however i if in indeed instead into
    is isn it its itself just least less let ll many may maybe me meanwhile might mine more
    moreover most mostly much must my myself namely neither never nevertheless no nobody none nor
    not nothing now nowhere of off often on once only onto or other others otherwise our ours
    ourselves out over own per perhaps quite rather re really s same several shall she should
    shouldn since so some somebody somehow someone something sometimes somewhere still such t than
    that the their theirs them themselves then thence there thereafter thereby therefore these
    they this those though through throughout thus to together too toward towards under until up
    upon us ve very via was wasn we well were weren what whatever when whenever where whereas
    whereby wherein wherever whether which while who whoever whole whom whose why will with within
    without won would wouldn yes yet you your yours yourself yourselves
"""
ENGLISH_STOP_WORDS = frozenset(_ENGLISH.split())


def plain(word: str) -> str:
    """Return a word in lower case and compatible letters, as stop words are compared."""
    return unicodedata.normalize("NFKC", word).lower()


@cache
def stop_words(language: str) -> frozenset[str]:
    """Return the stop words of a language; none of `OTHER_LANGUAGE`.

    Raises
    ------
    InputError
        If there is no list for the language, or the package that has it is not installed.
    """
    if language in (ENGLISH, "porter"):
        return ENGLISH_STOP_WORDS
    if language == OTHER_LANGUAGE:
        return frozenset()
    if language in LISTS:
        return frozenset(map(plain, LISTS[language]))
    remedy = "mark the words yourself as `tokens` with `pos`, or turn the stop words off"
    try:
        from stop_words import StopWordError, get_stop_words
    except ImportError:
        remedy = f"install the package stop-words, or {remedy}"
    else:
        try:
            words = get_stop_words(language.removesuffix("_porter"))
            return frozenset(map(plain, words))
        except StopWordError:
            pass
    raise InputError.of(
        file="settings",
        column="language",
        expected="a language with a list of stop words",
        found=repr(language),
        remedy=remedy,
    )


@cache
def languages() -> tuple[str, ...]:
    """Return the languages that have a stemmer or a list of stop words, and `OTHER_LANGUAGE`."""
    found = {*Stemmer.algorithms(), *LISTS, OTHER_LANGUAGE}
    try:
        from stop_words import AVAILABLE_LANGUAGES
    except ImportError:
        pass
    else:
        found.update(AVAILABLE_LANGUAGES)
    return tuple(sorted(found))
