"""A model of columns on the page: a table of cells, CSV files, pasted blocks, outputs by row."""

import csv
import json
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.page.conftest import address, ended, eventually, run
from tests.e2e.page.test_accessibility import sound
from tests.serving import Running, write_model

joblib = pytest.importorskip("joblib")
pd = pytest.importorskip("pandas")
np = pytest.importorskip("numpy")

CITIES = ["Oslo", "Paris", "Rome"]
TYPES = """
from inferstream import InferenceResponse, MLModel
from inferstream.codecs import StringCodec


class Typed(MLModel):
    async def predict(self, payload):
        rows = range(payload.inputs[0].shape[0])
        said = [repr([list(tensor.data)[row] for tensor in payload.inputs]) for row in rows]
        return InferenceResponse(model_name=self.name, outputs=[StringCodec.encode_output("said", said)])
"""
TYPED = [
    {"name": "count", "datatype": "INT64", "shape": [-1]},
    {"name": "flag", "datatype": "BOOL", "shape": [-1]},
    {"name": "size", "datatype": "BYTES", "shape": [-1], "parameters": {"choices": '["S","M","L"]'}},
    {
        "name": "day",
        "datatype": "BYTES",
        "shape": [-1],
        "parameters": {"content_type": "datetime", "format": "date"},
    },
    {"name": "note", "datatype": "BYTES", "shape": [-1], "parameters": {"optional": True}},
]


def train(folder: Path) -> None:
    """Train a classifier of named columns, and one of an array."""
    compose = pytest.importorskip("sklearn.compose")
    linear = pytest.importorskip("sklearn.linear_model")
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline

    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": random.integers(18, 80, 200).astype(float),
            "balance": random.normal(1000, 300, 200),
            "city": random.choice(CITIES, 200),
            "active": random.choice([True, False], 200),
        }
    )
    numbers = make_pipeline(SimpleImputer(), preprocessing.StandardScaler())
    flags = preprocessing.OrdinalEncoder(dtype=np.float64)
    columns = compose.make_column_transformer(
        (preprocessing.OneHotEncoder(), ["city"]), (numbers, ["age", "balance"]), (flags, ["active"])
    )
    labels = np.where(frame["age"] > 50, "leave", "stay")
    models = {
        "churn": make_pipeline(columns, linear.LogisticRegression()).fit(frame, labels),
        "flowers": linear.LogisticRegression().fit(
            frame[["age", "balance"]].to_numpy(), random.integers(0, 3, 200)
        ),
    }
    for name, model in models.items():
        (folder / name).mkdir(parents=True)
        joblib.dump(model, folder / name / "model.joblib")
        settings = {"name": name, "implementation": "sklearn"}
        (folder / name / "model-settings.json").write_text(json.dumps(settings))


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("tables") / "models"
    train(folder)
    outputs = [{"name": "said", "datatype": "BYTES", "shape": [-1]}]
    write_model(folder, "typed", "typed_code.Typed", TYPES, name="typed", inputs=TYPED, outputs=outputs)
    running = Running(folder, within=120)
    yield running
    assert running.stop() == 0, running.text()


def cell(page: Any, name: str, row: int = 1) -> Any:
    return page.get_by_label(f"{name}, row {row}", exact=True)


def headings(page: Any, region: str) -> list[str]:
    return page.get_by_role("region", name=region).locator("thead th").all_inner_texts()


def open_csv(page: Any, text: str, name: str = "rows.csv") -> None:
    page.get_by_label("CSV file").set_input_files(
        {"name": name, "mimeType": "text/csv", "buffer": text.encode()}
    )
    page.locator(".field[aria-busy=false]").wait_for()


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def fault(page: Any) -> str:
    return page.locator(".runner .fault").inner_text()


def paste(page: Any, target: Any, text: str) -> None:
    target.evaluate(
        """(element, text) => {
          const data = new DataTransfer();
          data.setData("text/plain", text);
          element.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
        }""",
        text,
    )
    page.locator(".field[aria-busy=false]").wait_for()


@pytest.mark.parametrize("model", ["churn", "flowers", "typed"])
def test_prefilled_row_is_accepted(tables: Running, visit: Callable[..., Any], model: str) -> None:
    page = visit(address(tables, model))
    run(page)
    assert page.locator(".card.result .note").get_attribute("data-state") == "done"
    assert page.get_by_role("region", name="Outputs by row").locator("tbody tr").count() == 1


def test_example_comes_from_training_data(tables: Running, visit: Callable[..., Any]) -> None:
    page = visit(address(tables, "churn"))
    cell(page, "age").wait_for()
    assert headings(page, "Rows of the input")[1:5] == [
        "age number",
        "balance number",
        "city text",
        "active yes or no",
    ]
    assert 30 < float(cell(page, "age").input_value()) < 60
    assert cell(page, "city").input_value() == "Oslo"
    assert page.locator("datalist option").evaluate_all("each => each.map(({ value }) => value)") == CITIES
    assert cell(page, "active").get_attribute("type") == "checkbox"


def test_unseen_value_is_named_and_example_comes_back(tables: Running, visit: Callable[..., Any]) -> None:
    page = visit(address(tables, "churn"))
    city = cell(page, "city")
    usual = city.input_value()
    city.fill("Pariss")
    page.get_by_text('Row 1, column "city": the training data had no "Pariss".').wait_for()
    city.fill("Paris")
    assert page.get_by_text("the training data had no").count() == 0
    page.get_by_role("button", name="Add a row").click()
    cell(page, "city", 2).fill("Atlantis")
    page.get_by_text('Row 2, column "city": the training data had no "Atlantis".').wait_for()
    page.get_by_role("button", name="Back to the example").click()
    assert (cell(page, "city").input_value(), cell(page, "city", 2).count()) == (usual, 0)
    assert page.get_by_text("the training data had no").count() == 0
    run(page)


def test_labels_and_probabilities_stand_by_row(
    tables: Running, visit: Callable[..., Any], tmp_path: Path
) -> None:
    page = visit(address(tables, "churn"))
    cell(page, "age").fill("70")
    page.get_by_role("button", name="Add a row").click()
    cell(page, "age", 2).fill("20")
    run(page)
    titles = headings(page, "Outputs by row")
    assert titles[1:] == [
        "predict",
        "predict_proba leave",
        "predict_proba stay",
        "predict_proba highest",
        "age",
        "balance",
        "city",
        "active",
    ]
    rows = page.get_by_role("region", name="Outputs by row").locator("tbody tr")
    assert rows.locator("td.outcome").all_inner_texts() == ["leave", "stay"]
    shares = rows.locator("td.share").evaluate_all(
        "each => each.map((cell) => cell.style.getPropertyValue('--share'))"
    )
    assert [
        float(one) + float(other) for one, other in zip(shares[::3], shares[1::3], strict=True)
    ] == pytest.approx([1, 1])
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as CSV").click()
    download.value.save_as(tmp_path / "saved.csv")
    saved = read_csv(tmp_path / "saved.csv")
    assert [row["predict"] for row in saved] == ["leave", "stay"]
    assert [row["age"] for row in saved] == ["70", "20"]
    assert float(saved[0]["predict_proba[leave]"]) > 0.5
    page.get_by_label("predict_proba", exact=True).uncheck()
    run(page)
    assert headings(page, "Outputs by row")[1:3] == ["predict", "age"]


def test_matrix_has_numbered_columns_and_labels_are_text(tables: Running, visit: Callable[..., Any]) -> None:
    page = visit(address(tables, "flowers"))
    cell(page, "0").wait_for()
    assert headings(page, "Rows of the input")[1:3] == ["0 number", "1 number"]
    open_csv(page, "0,1\n40,900\n50.5,1e3\n")
    run(page)
    titles = headings(page, "Outputs by row")
    assert titles[1:5] == ["predict", "predict_proba 0", "predict_proba 1", "predict_proba 2"]
    assert page.locator(".card.result .chart").count() == 0
    open_csv(page, "40;900\n41;901\n42;902\n", "no-header.csv")
    assert page.locator(".sheet tbody tr").count() == 3


def test_cells_have_the_types_of_their_columns(tables: Running, visit: Callable[..., Any]) -> None:
    page = visit(address(tables, "typed"))
    assert [cell(page, name).get_attribute("type") for name in ("count", "flag", "day", "note")] == [
        "text",
        "checkbox",
        "date",
        "text",
    ]
    cell(page, "size").select_option("M")
    cell(page, "note").fill("")
    run(page)
    assert "[1, True, 'M', '2000-01-01']" in page.locator("td.outcome").inner_text().replace("b'", "'")
    cell(page, "count").fill("1.5")
    page.get_by_role("button", name="Run", exact=True).click()
    eventually(lambda: fault(page) == 'Row 1, column "count": "1.5" is not an integer.')
    assert cell(page, "count").get_attribute("aria-invalid") == "true"
    assert page.locator(".card.result").inner_text().count("2000-01-01") == 0  # the old output is gone
    assert "Nothing was sent" in page.locator(".card.result").inner_text()


@pytest.mark.parametrize("form", ["object", "list"])
def test_probabilities_of_one_input_are_bars(visit: Callable[..., Any], tmp_path: Path, form: str) -> None:
    (tmp_path / "app.py").write_text(
        """
from typing import Any

from inferstream import App

app = App()


@app.model
def classify(text: str, form: str) -> Any:
    scores = {"cat": 0.2, "dog": 0.7, "bird": 0.1}
    return scores if form == "object" else [{"label": name, "score": each} for name, each in scores.items()]
"""
    )
    running = Running(tmp_path / "app.py")
    try:
        page = visit(address(running, "classify"))
        page.get_by_label("form", exact=True).fill(form)
        run(page)
        shares = page.get_by_role("list", name="Classes of output").locator("li")
        assert shares.all_inner_texts()[0].split() == ["dog", "0.700"]
        assert shares.count() == 3
    finally:
        running.stop()


def test_missing_values_reach_the_model(tables: Running, visit: Callable[..., Any]) -> None:
    page = visit(address(tables, "churn"))
    cell(page, "age").fill("")
    run(page)
    assert page.locator(".card.result .note").get_attribute("data-state") == "done"


def test_block_of_a_spreadsheet_is_pasted(tables: Running, visit: Callable[..., Any]) -> None:
    page = visit(address(tables, "churn"))
    paste(page, cell(page, "age"), "31\t500\tRome\tyes\n32\t501\tOslo\tno\n33\t\tParis\tTRUE\n")
    assert page.locator(".sheet tbody tr").count() == 3
    assert cell(page, "balance", 3).input_value() == ""
    assert [cell(page, "active", row).is_checked() for row in (1, 2, 3)] == [True, False, True]
    paste(page, cell(page, "balance", 3), "balance\tcity\n7\tRome")
    assert cell(page, "balance", 3).input_value() == "7"
    paste(page, cell(page, "city", 2), "a\tb\tc")
    assert fault(page) == 'The block has 3 columns; from "city" on there are 2.'
    assert cell(page, "city", 2).input_value() == "Oslo"


BAD = {
    "other columns": ("age,town\n1,Oslo\n", 'rows.csv has no column "balance"; its columns are age, town.'),
    "wrong type": (
        "age,balance,city,active\n1,2,Oslo,yes\n1,much,Oslo,yes\n",
        'Row 2 of rows.csv, column "balance": "much" is not a number.',
    ),
    "decimal comma": (
        "age;balance;city;active\n1;2,5;Oslo;yes\n",
        'Row 1 of rows.csv, column "balance": "2,5" is not a number with a decimal point.',
    ),
    "flag": (
        "age,balance,city,active\n1,2,Oslo,perhaps\n",
        'Row 1 of rows.csv, column "active": "perhaps" is neither yes nor no.',
    ),
    "ragged": ("age,balance,city,active\n1,2,Oslo\n", "Row 1 of rows.csv has 3 cells, and the header has 4."),
    "quotes": ('age,balance,city,active\n1,2,"Oslo,yes\n', "Row 1 of rows.csv has a broken quotation mark."),
    "no rows": ("age,balance,city,active\n", "rows.csv has a header and no rows."),
    "empty": ("", "rows.csv is empty."),
    "not text": ("\ufffd", "rows.csv is not UTF-8 text."),
    "too long": (
        "age,balance,city,active\n" + "1,2,Oslo,yes\n" * 100_001,
        "rows.csv has more than 100,000 rows.",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_file_is_one_sentence_and_changes_nothing(
    tables: Running, visit: Callable[..., Any], kind: str
) -> None:
    page = visit(address(tables, "churn"))
    text, said = BAD[kind]
    open_csv(page, text)
    refused = f"{said.removesuffix('.')}, so rows.csv was not loaded. To run the rows that were there before, edit one."
    assert fault(page) == refused
    assert page.locator(".sheet tbody tr").count() == 1
    assert cell(page, "city").input_value() == "Oslo"


def test_refused_file_does_not_run_the_rows_before_it(tables: Running, visit: Callable[..., Any]) -> None:
    page = visit(address(tables, "churn"))
    open_csv(page, "age,balance,city,active\n1,2,Oslo,yes\n3,4,Rome,no\n")
    run(page)
    open_csv(page, "age,town\n1,Oslo\n", "other.csv")
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("Nothing was sent. Correct the input first.").wait_for()
    assert 'other.csv has no column "balance"' in fault(page)
    cell(page, "age").fill("5")
    assert fault(page) == ""
    run(page)
    assert page.get_by_role("region", name="Outputs by row").locator("tbody tr").count() == 2
    cell(page, "age").fill("6")
    assert page.locator(".card.result .note").inner_text() == "The input has changed since then"


def test_outputs_are_sorted_by_any_column(tables: Running, visit: Callable[..., Any]) -> None:
    page = visit(address(tables, "churn"))
    rows = [(age, 300 - 2 * age, CITIES[age % 3], f"id{1000 - age}") for age in range(20, 140)]
    open_csv(page, "age,balance,city,active,id\n" + "".join(f"{a},{b},{c},1,{d}\n" for a, b, c, d in rows))
    page.get_by_role("checkbox", name="predict_proba").check()
    run(page)
    table = page.get_by_role("region", name="Outputs by row")
    titles = headings(page, "Outputs by row")

    def column(title: str) -> list[str]:
        return table.locator(f"tbody tr > :nth-child({titles.index(title) + 1})").all_inner_texts()

    def sort(title: str) -> str:
        head = table.get_by_role("columnheader", name=title, exact=True)
        head.get_by_role("button").press("Enter")
        return head.get_attribute("aria-sort")

    assert (sort("age"), sort("age")) == ("ascending", "descending")
    shown = column("age")
    assert shown == [str(age) for age in range(139, 139 - len(shown), -1)]
    assert sort("id") == "ascending"
    assert column("id")[0] == "id861"
    [highest] = [title for title in titles if title.endswith("highest")]
    assert sort(highest) == "ascending"
    shares = [float(share) for share in column(highest)]
    assert shares == sorted(shares)
    assert sort("Row") == "ascending"
    assert column("Row")[:3] == ["1", "2", "3"]
    sound(page)


def test_file_of_ten_thousand_rows_is_sent_and_saved_whole(
    tables: Running, visit: Callable[..., Any], tmp_path: Path
) -> None:
    page = visit(address(tables, "churn"))
    body = "".join(f"{row % 90},{row},{CITIES[row % 3]},{row % 2},x{row}\n" for row in range(10_000))
    open_csv(page, "age,balance,city,active,id\n" + body)
    assert page.locator(".sheet tbody tr").count() == 100
    note = page.locator(".runner [role=status]").inner_text()
    assert note == (
        "The first 100 rows are shown, and all 10,000 are sent. "
        "Loaded from rows.csv. Not sent, because the model has no such column: id."
    )
    page.get_by_text("without the other 9,980 rows").wait_for()
    run(page)
    assert page.get_by_role("region", name="Outputs by row").locator("tbody tr").count() == 100
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as CSV").click()
    download.value.save_as(tmp_path / "saved.csv")
    saved = read_csv(tmp_path / "saved.csv")
    assert [len(saved), saved[0]["id"], saved[-1]["id"]] == [10_000, "x0", "x9999"]
    open_csv(page, "age,balance,city,active\n1,2,Oslo,yes\n")
    assert page.locator(".card.result table").count() == 0  # the output of other rows is gone


def test_flags_of_pandas_are_numbers_in_a_column_of_numbers(
    tables: Running, visit: Callable[..., Any]
) -> None:
    page = visit(address(tables, "churn"))
    open_csv(page, "age,balance,city,active\nTrue,False,Oslo,True\n")
    assert (cell(page, "age").input_value(), cell(page, "balance").input_value()) == ("1", "0")
    run(page)
    page = visit(address(tables, "typed"))
    open_csv(page, "count,flag,size,day\nTrue,False,M,2000-01-01\n")
    assert cell(page, "count").input_value() == "1"
    open_csv(page, "count,flag,size,day\nconstructor,no,M,2000-01-01\n")
    assert '"constructor" is not a number' in fault(page)


def test_dropped_file_fills_the_table(tables: Running, visit: Callable[..., Any]) -> None:
    page = visit(address(tables, "churn"))
    page.locator(".sheet").evaluate(
        """(element) => {
          const data = new DataTransfer();
          data.items.add(new File(["city,active,age,balance\\nRome,0,44,12\\n"], "d.csv"));
          element.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
        }"""
    )
    eventually(lambda: cell(page, "age").input_value() == "44")


def test_server_error_points_to_the_column(tables: Running, visit: Callable[..., Any]) -> None:
    page = visit(address(tables, "churn"))
    cell(page, "city").fill("Berlin")
    page.get_by_role("button", name="Run", exact=True).click()
    ended(page)
    assert "Berlin" in page.locator(".card.result .error").inner_text()


@pytest.mark.parametrize("size", [(1280, 800), (390, 800)])
def test_table_by_keyboard_alone(tables: Running, visit: Callable[..., Any], size: tuple[int, int]) -> None:
    page = visit(address(tables, "churn"), viewport={"width": size[0], "height": size[1]})
    page.get_by_role("button", name="Run", exact=True).wait_for()
    page.keyboard.press("Control+Enter")  # nothing has the focus
    ended(page)
    page.get_by_role("button", name="Add a row").focus()
    page.keyboard.press("Enter")
    eventually(lambda: page.evaluate("document.activeElement.getAttribute('aria-label')") == "age, row 2")
    page.keyboard.type("20")
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "age, row 1"
    page.keyboard.press("Control+Enter")
    eventually(lambda: page.locator(".card.result tbody tr").count() == 2)
    page.get_by_role("button", name="Remove row 2").press("Enter")
    eventually(lambda: page.locator(".sheet tbody tr").count() == 1)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_table_has_names_contrast_and_structure(
    tables: Running, visit: Callable[..., Any], scheme: str, width: int
) -> None:
    for model in ("churn", "typed"):
        page = visit(address(tables, model), color_scheme=scheme, viewport={"width": width, "height": 800})
        run(page)
        sound(page)
        open_csv(page, "x\n1\n")
        sound(page)
        page.context.close()


def edges(region: Any) -> tuple[int, int]:
    """The brightness of the left and the right edge of a table, above the text of its head."""
    from PIL import Image

    image = Image.open(BytesIO(region.screenshot())).convert("L")
    return image.getpixel((4, 8)), image.getpixel((image.width - 5, 8))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_shadow_shows_that_columns_are_hidden(
    tables: Running, visit: Callable[..., Any], scheme: str
) -> None:
    pytest.importorskip("PIL")
    page = visit(address(tables, "churn"), color_scheme=scheme, viewport={"width": 390, "height": 800})
    run(page)
    for name in ("Rows of the input", "Outputs by row"):
        region = page.get_by_role("region", name=name)
        left, right = edges(region)
        assert right < left - 3, name
        region.evaluate("each => { each.scrollLeft = each.scrollWidth; }")
        left, right = edges(region)
        assert left < right - 3, name
    wide = visit(address(tables, "churn"), color_scheme=scheme)
    cell(wide, "age").wait_for()
    left, right = edges(wide.get_by_role("region", name="Rows of the input"))
    assert left == right


def test_run_and_result_are_visible_with_ten_columns(visit: Callable[..., Any], tmp_path: Path) -> None:
    inputs = [{"name": f"column_{index}", "datatype": "FP32", "shape": [-1]} for index in range(10)]
    outputs = [{"name": "said", "datatype": "BYTES", "shape": [-1]}]
    write_model(
        tmp_path / "models", "wide", "typed_code.Typed", TYPES, name="wide", inputs=inputs, outputs=outputs
    )
    running = Running(tmp_path / "models")
    try:
        page = visit(address(running, "wide"), viewport={"width": 1280, "height": 800})
        run(page)
        for shown in (page.get_by_role("button", name="Run", exact=True), page.locator("td.outcome")):
            box = shown.bounding_box()
            assert box["y"] >= 60
            assert box["y"] + box["height"] <= 800
    finally:
        running.stop()
