// Search in a site that is read from files: browsers start no workers there. The worker's script runs in a hidden
// frame instead, with the same interface. The theme's search knows frames by the name IFrameWorker.
window.IFrameWorker = class extends EventTarget {
  constructor(url) {
    super();
    const frame = document.createElement("iframe");
    frame.hidden = true;
    document.body.append(frame);
    this.inner = frame.contentWindow;
    this.inner.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }));
    this.ready = new Promise(resolve => {
      const script = this.inner.document.createElement("script");
      script.src = new URL(url, document.baseURI);
      script.onload = resolve;
      this.inner.document.body.append(script);
    });
  }

  postMessage(data) {
    this.ready.then(() => this.inner.dispatchEvent(new this.inner.MessageEvent("message", { data })));
  }
};
if (location.protocol === "file:") window.Worker = window.IFrameWorker;
