"""What the speculation benchmark asks, by kind of task: five prompts of each, short enough for a small model.

`PREDICTED` names the kinds whose caller knows most of the answer beforehand; there the prompt's last paragraph is the
`prediction`.
"""

__all__ = ["PREDICTED", "PROMPTS", "prediction_of"]

PREDICTED = ("copy-edit", "rewrite")

_STORE = """class Store:
    def __init__(self, limit):
        self.limit = limit
        self.items = {}

    def put(self, name, value):
        if len(self.items) >= self.limit:
            self.items.pop(next(iter(self.items)))
        self.items[name] = value

    def get(self, name):
        return self.items.get(name)"""

_AREA = """def area(width, height):
    if width < 0 or height < 0:
        raise ValueError("sides must not be negative")
    return width * height

def perimeter(width, height):
    return 2 * (width + height)"""

_MILL = """The mill stands where the brook leaves the wood. Its wheel is six metres high and was built of oak in 1788.
Until 1931 the family Brandt ground rye and wheat here for eleven villages. In that year a flood broke the dam, and the
wheel stood still for forty years. Since 1974 a society of friends looks after the house. On Sundays from May to
September visitors can see the stones turn, and buy a bag of flour for three euros."""

_LETTER = """Dear neighbours, on saturday we will clean the path along the river. We meet at nine oclock at the old
bridge. Please bring gloves and a rake if you has one. There will be soup and bread for everybody at noon. Children is
welcome, but must stay with there parents near the water. If it rains we meet one week later at the same time."""

_NOTICE = """The library will be closed from Monday to Wednesday, because new shelves are being put up. Books that are
due on these days can be brought back until Friday without a fee. The reading room on the first floor stays open, but
its entrance is through the yard. Readers who have ordered books get a message when they can be fetched."""

_ORDERS = """Order 1041: Anna Berg, Lindau, 3 lamps, 87.00 euros, sent on 4 March.
Order 1042: Paul Ortiz, Bern, 1 desk, 240.00 euros, sent on 5 March.
Order 1043: Mia Sato, Graz, 2 chairs, 158.50 euros, not sent.
Order 1044: Tom Hale, Lindau, 6 cups, 42.00 euros, sent on 5 March."""

_MEETING = """On Tuesday, 12 May, Clara Weiss and Omar Haddad met in Rotterdam to plan the new harbour office. Clara
will ask three builders for prices by 20 May. Omar will draw the rooms and send the plan to Lena Fischer in Oslo. The
office must be ready on 1 October and may cost 450,000 euros. They meet again on 26 May at ten."""

PROMPTS: dict[str, tuple[str, ...]] = {
    "chat": (
        "Why do leaves change their colour in autumn?",
        "I sleep badly before important days. What can I do?",
        "Tell me a short story about a lighthouse keeper who finds a map.",
        "What should I think about before I buy a used bicycle?",
        "Explain to a child how a bridge carries heavy lorries.",
    ),
    "code": (
        "Write a Python function that returns the n largest words of a text by length.",
        f"Add a method `remove(name)` and a method `clear()` to this class, and show the whole class:\n\n{_STORE}",
        "Write a Python class for a bank account with deposit, withdraw and a history.",
        "Write a JavaScript function that groups an array of objects by a key.",
        f"Write tests with pytest for these two functions:\n\n{_AREA}",
    ),
    "math": (
        "A train goes 80 km in one hour and 60 km in the next half hour. What is its average speed? Show each step.",
        "Solve 3x + 7 = 2x + 15 step by step, then check the result.",
        "A box holds 12 rows of 8 eggs. Seven eggs are broken. How many are whole? Show your work.",
        "What are the first ten multiples of 7? Write each as a product.",
        "A shop lowers a price of 250 euros by 20 percent, and then by 10 percent. What is the price now? Show steps.",
    ),
    "rag": (
        f"Answer from this text only: when was the wheel built, and what happened in 1931?\n\n{_MILL}",
        f"Use the text to answer: who works on what after the meeting, and until when?\n\n{_MEETING}",
        f"Answer with sentences from the text: where is the entrance of the reading room?\n\n{_NOTICE}",
        f"What can visitors see and buy, and when? Quote the text.\n\n{_MILL}",
        f"According to the list, which orders went to Lindau and what did they cost?\n\n{_ORDERS}",
    ),
    "translate": (
        f"Translate into French:\n\n{_NOTICE}",
        "Translate into Spanish: The train to the coast leaves at seven from the third platform, and we have two bags.",
        "Translate into German: My brother lives in a small house near the lake. He has a dog and two cats.",
        f"Translate into Spanish:\n\n{_MILL}",
        "Translate into French: Good morning. I would like two tickets to the museum, and a map of the old town.",
    ),
    "json": (
        f"Turn the orders into a JSON array with the keys id, name, city, item, count, price, sent:\n\n{_ORDERS}",
        "Write a JSON array of six cities in Europe, each with name, country, population and river.",
        f"Give the facts of this text as JSON with the keys date, place, people, tasks, budget:\n\n{_MEETING}",
        "Write a JSON object that describes a weekly plan: for each day a list of tasks with title, start and end.",
        "Write a JSON schema for a customer with name, email, address and a list of orders.",
    ),
    "copy-edit": (
        f"Correct the mistakes in this letter and repeat the whole letter:\n\n{_LETTER}",
        f"Repeat this text word for word, but write Monday as Tuesday:\n\n{_NOTICE}",
        f"Repeat this code exactly, but rename the class to Cache:\n\n{_STORE}",
        f"Repeat the following text without any change:\n\n{_MILL}",
        f"Repeat this code and add a docstring to each function:\n\n{_AREA}",
    ),
    "rewrite": (
        f"Rewrite this text for children:\n\n{_MILL}",
        f"Make this notice more polite:\n\n{_NOTICE}",
        f"Rewrite this letter as a formal invitation:\n\n{_LETTER}",
        f"Write these notes as three short paragraphs:\n\n{_MEETING}",
        f"Rewrite this list as full sentences:\n\n{_ORDERS}",
    ),
    "extract": (
        f"List every name, date and sum of money in this text:\n\n{_MEETING}",
        f"List all orders as lines of the form `number; name; price`:\n\n{_ORDERS}",
        f"List every year in this text with what happened then:\n\n{_MILL}",
        f"Write down all sentences of this letter that ask the reader to do something:\n\n{_LETTER}",
        f"List the days and places that this notice names, each in quotes:\n\n{_NOTICE}",
    ),
}


def prediction_of(prompt: str) -> str:
    """What the caller of an edit predicts: the text itself."""
    return prompt.partition("\n\n")[2]
