"""The smallest network, corpus and vocabulary that still exercise everything."""

from pathlib import Path

from albert_tf import AlbertConfig

TINY = AlbertConfig(
    vocab_size=200,
    embedding_size=16,
    hidden_size=32,
    num_hidden_layers=3,
    num_attention_heads=4,
    intermediate_size=64,
    max_position_embeddings=64,
)

# Eight documents, a sentence a line.
CORPUS = """\
The lighthouse stood at the end of a long stone wall, and nobody had lived in it for years.
Every evening the fishermen looked up at the dark window and told each other the same story.
A keeper, they said, had rowed out in a storm to save a boat full of sheep.
He saved the sheep but lost his hat, and was so ashamed that he moved inland.
The children did not believe a word of it.
One summer they climbed the wall with a lamp, two apples and a very long rope.
Inside they found a chair, a cup, and a hat hanging on a nail behind the door.
"So he came back for it," said the smallest of them.
They lit the lamp and put it in the window before they went home.
That night eleven boats came in by its light, and nobody told the old story again.

Bread needs only four things: flour, water, salt and time.
The flour gives it a body, and the water wakes the yeast that sleeps in the flour.
Salt slows the yeast down, which is good, because a slow dough has more taste.
Mix the four in a bowl until no dry flour is left, then cover the bowl with a cloth.
After an hour, fold the dough over itself from each of its four sides.
Do this three times, with half an hour of rest between the folds.
A dough that is ready shakes a little when you move the bowl.
Bake it in the hottest oven you have, in a heavy pot with a lid.
Take the lid off for the last fifteen minutes, so that the crust turns brown.
Wait until the loaf is cool before you cut it; this is the hardest part.

Rivers do not choose their way, and yet no two of them are alike.
Where the ground is soft, the water cuts a deep bed and runs straight.
Where the ground is hard, it spreads out, turns, and looks for a gap.
On a plain a river moves from side to side like a snake.
The outer bank of each bend is worn away, while sand settles on the inner one.
In time a bend grows so round that the river breaks through its neck.
The old bend is left behind as a lake in the shape of a bow.
Maps that were drawn a hundred years ago show rivers in places where cows now stand.
Some borders still follow the old beds, and so a few farms lie on the wrong side of the water.

Mrs. Alder kept bees on the roof of the library (the mayor had given her leave in 1987).
She had 12 hives, all painted in different colours so that the bees could tell them apart.
In spring they flew to the chestnut trees along the canal.
In July they preferred the lime trees of the station, two kilometres away.
Readers often asked her whether the bees disturbed the books.
"The books have never complained," she would answer, and hand them a jar.
A jar cost £3, or nothing at all for anyone who had finished a long novel.
When she retired, the library bought a bench for the roof and put her name on it.
The bees are still there, and the honey still tastes of limes.

The first clock in the village was made by a man who could not read.
He had seen a clock once, in the window of a shop, and remembered how it moved.
For a whole winter he cut wheels out of pear wood and threw most of them away.
The teeth of two wheels must meet exactly, or the clock stops before the morning.
In March he had a clock that ran, but it ran too fast.
He hung a heavier stone on the rope, and then it ran too slowly.
At last he learned that the length of the pendulum matters and its weight does not.
That discovery was two hundred years old, but it was new to him.
He never learned to read, yet everybody in the village knew the time.
His clock still loses four minutes a day, and the church waits for it.

To draw a map of a wood, begin with the paths and not with the trees.
Walk each path from one end to the other and count your steps.
Write down the number whenever the path turns or meets another one.
A compass tells you in which direction you walk, and a notebook remembers it for you.
At home, choose how many steps make one centimetre on the paper.
Draw the paths first, and see whether they meet where they should.
They never do at first, because nobody walks a straight line in a wood.
Share the error out among all the paths until every crossing fits.
Only then add the streams, the clearings and the old oak.
A good map is one that a stranger can follow in the rain.

Snow fell for three days, and on the fourth day the trains stopped.
The passengers of the night express woke up in a white field without a name.
A cook from the south opened the kitchen and made soup for everybody.
A teacher gave lessons in the dining car, first to the children and then to their parents.
Two men who had not spoken for ten years discovered that they were in the same carriage.
By noon they were playing chess; by evening they were laughing.
On the fifth day a plough came through, and the train moved on.
Nobody was in a hurry any more.
At the next station half of the passengers got out, although it was not theirs, to send a postcard.

The moon is slowly moving away from us, about four centimetres each year.
We know this because astronauts left a mirror there.
From time to time somebody sends a flash of light to the mirror and measures how long it takes to return.
The light needs two and a half seconds for the way there and back.
The tides are the reason: the moon lifts the sea, and the turning earth drags the water along.
The water in turn pulls the moon forward, and so it climbs to a wider orbit.
The earth pays for that with its own speed, and the day grows longer.
When the first fish came on land, a day had only twenty-two hours.
Nobody has to change a watch for it yet.
"""

DOCUMENTS = [document.splitlines() for document in CORPUS.split("\n\n")]


def write_corpus(folder: Path) -> Path:
    """A text file with CORPUS in it."""
    path = folder / "corpus.txt"
    path.write_text(CORPUS, encoding="utf-8")
    return path
