/**
 * Whether a turn must stop, and why. Most turns end before anyone asks for a signal, and a signal is the dearest object that
 * a turn would own: it is made when it is first asked for, fired already if the halt came before.
 */
export class Halt {
  #controller: AbortController | undefined
  #reason: string | undefined

  get called(): boolean {
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
  call(reason: string): void {
    if (this.#reason !== undefined) return
    this.#reason = reason
    this.#controller?.abort(reason)
  }
}
