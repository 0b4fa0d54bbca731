from inferstream import App

app = App()


@app.model
def shout(text: str) -> str:
    return text.upper()


@app.model
def add(a: float, b: float) -> float:
    return a + b
