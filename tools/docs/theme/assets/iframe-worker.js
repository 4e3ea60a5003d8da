// Search runs in a worker, and a browser starts none for pages opened as files. This one is a frame with the same interface.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      document.body.append(frame);
      const inner = frame.contentWindow;
      this.inner = inner;
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inner.importScripts = (...scripts) => scripts.reduce((done, src) => done.then(() => load(inner, src)), Promise.resolve());
      this.ready = load(inner, new URL(address, document.baseURI).href);
    }
    postMessage(data) {
      this.ready.then(() => this.inner.dispatchEvent(new this.inner.MessageEvent("message", { data })));
    }
    terminate() {
      this.inner.frameElement.remove();
    }
    set onmessage(hear) {
      this.addEventListener("message", hear);
    }
  };
  const load = (inner, src) => new Promise((done, failed) => {
    const script = inner.document.createElement("script");
    Object.assign(script, { src, onload: done, onerror: failed });
    inner.document.body.append(script);
  });
}
