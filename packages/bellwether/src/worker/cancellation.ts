/**
 * Whether a turn must stop, and why. The signal is created on first use: most turns end before anything asks for one, and an
 * `AbortSignal` is the most expensive object that a turn would own.
 */
export class Cancellation {
  #controller: AbortController | undefined
  #reason: string | undefined

  get requested(): boolean {
    return this.#reason !== undefined
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.#reason !== undefined) this.#controller.abort(this.#reason)
    }
    return this.#controller.signal
  }

  /** The first reason counts. */
  cancel(reason: string): void {
    if (this.#reason !== undefined) return
    this.#reason = reason
    this.#controller?.abort(reason)
  }
}
