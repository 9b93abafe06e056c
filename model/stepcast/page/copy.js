// Buttons that copy what is to be pasted. Where a browser gives no access to its clipboard, the text is selected, so
// that the keyboard's own command copies it.
(() => {
  const status = document.createElement('p');
  status.className = 'unseen';
  status.setAttribute('role', 'status');
  document.body.append(status);

  const select = (element) => {
    const range = document.createRange();
    range.selectNodeContents(element);
    const selection = getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
  };

  const copied = async (element) => {
    try {
      await navigator.clipboard.writeText(element.textContent);
      return true;
    } catch {
      select(element);
      return document.execCommand('copy');
    }
  };

  for (const button of document.querySelectorAll('button[data-copy]')) {
    const text = button.firstChild;
    const word = text.data;
    button.hidden = false;
    button.addEventListener('click', async () => {
      const done = await copied(document.getElementById(button.dataset.copy));
      text.data = done ? 'Copied' : 'Selected';
      status.textContent = done ? 'Copied' : 'Selected: press Ctrl+C to copy';
      setTimeout(() => { text.data = word; status.textContent = ''; }, 2000);
    });
  }
})();
