// Reads the page again, unless the reader writes in a form, has selected text, or has hidden the page.
const seconds = Number(document.currentScript.dataset.seconds);

function isIdle() {
  return !document.hidden && getSelection().isCollapsed && !document.querySelector("input:focus");
}

async function readAnew() {
  try {
    const reply = await fetch(location.href, { headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await reply.text(), "text/html").querySelector("main");
    if (!page || !isIdle()) return;
    const focused = document.activeElement?.getAttribute("href");
    document.querySelector("main").replaceWith(page);
    if (focused) page.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
  } catch {
    // The service is away: the page says as of when it is.
  }
}

if (seconds > 0) setInterval(() => { if (isIdle()) readAnew(); }, seconds * 1000);
