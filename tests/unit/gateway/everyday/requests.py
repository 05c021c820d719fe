"""Fifty things that people ask for on a day, and the servers that are right for each.

Owns: `REQUESTS`. Where several of the thirty servers do the same (five search the web), each of
them is right.
"""

from __future__ import annotations

_WEB = ("brave-search", "tavily", "exa", "firecrawl")
_BROWSER = ("playwright", "puppeteer", "chrome-devtools")
_SCRAPE = ("firecrawl", "tavily", "exa")

REQUESTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("open a pull request from my branch into main", ("github",)),
    ("which repositories on GitHub have the most stars for Rust web frameworks?", ("github",)),
    ("file a bug on our GitHub repo: login page crashes on Safari", ("github",)),
    ("create a merge request on GitLab for the hotfix", ("gitlab",)),
    ("fork this project into my GitLab group", ("gitlab",)),
    ("what have I changed but not staged yet?", ("git",)),
    ("show the last ten commits here", ("git", "github")),
    ("commit what is staged with the message 'fix typo'", ("git",)),
    ("switch to the branch develop", ("git",)),
    ("post 'standup in 5 minutes' to the #team channel", ("slack",)),
    ("reply in the Slack thread about the outage", ("slack",)),
    ("who is in our Slack workspace?", ("slack",)),
    ("add a thumbs up to that message", ("slack",)),
    ("what is in my Downloads folder?", ("filesystem",)),
    ("rename report.txt to report-final.txt", ("filesystem",)),
    ("read the file notes.md", ("filesystem",)),
    ("find every PDF below my home directory", ("filesystem",)),
    ("remember that Anna prefers tea over coffee", ("memory",)),
    ("what do you know about me from earlier conversations?", ("memory",)),
    ("how do I get from Berlin to Hamburg by car?", ("google-maps",)),
    ("how far is the airport from my hotel?", ("google-maps",)),
    ("coordinates of 221B Baker Street", ("google-maps",)),
    ("find a pizza place near Union Square", ("google-maps", "brave-search")),
    ("a flat in Lisbon for two adults from 3 to 9 May", ("airbnb",)),
    ("what does this Airbnb cost and does it have a kitchen?", ("airbnb",)),
    ("search the web for the newest iPhone rumours", _WEB),
    ("today's news about the election", _WEB),
    ("give me the text of https://example.org/blog as markdown", _SCRAPE),
    ("crawl the whole documentation site", _SCRAPE),
    ("take a screenshot of our landing page", _BROWSER),
    ("click the button that says Accept cookies", _BROWSER),
    ("record a performance trace while the page loads", ("chrome-devtools",)),
    ("how do I use useEffect in React? show me current docs", ("context7",)),
    ("documents in the orders collection where total is over 100", ("mongodb",)),
    ("create an index on the email field of my Mongo collection", ("mongodb",)),
    ("select the ten newest rows of the users table with SQL", ("postgres",)),
    ("which indices does our Elasticsearch cluster have?", ("elasticsearch",)),
    ("add a page to my Notion workspace with the meeting minutes", ("notion",)),
    ("leave a comment on the Notion page", ("notion",)),
    ("add 'buy milk' to my to-do list for tomorrow", ("todoist",)),
    ("tick off the task 'call the dentist'", ("todoist",)),
    ("create a new field in my Airtable base", ("airtable",)),
    ("log two hours of work on PROJ-123 in Jira", ("atlassian",)),
    ("move the Jira ticket to Done", ("atlassian",)),
    ("what is planned in the current Linear cycle?", ("linear",)),
    ("most frequent errors in production since yesterday, in Sentry", ("sentry",)),
    ("show the logs of the crashing pod", ("kubernetes",)),
    ("scale the deployment web to five replicas", ("kubernetes",)),
    ("export the icons of our Figma design", ("figma",)),
    ("recent papers about diffusion models", ("arxiv", "firecrawl")),
)
