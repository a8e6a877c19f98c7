/** A double click acts once, also before the page shows that the request is under way. */
import { useRef } from 'react'

/** Starts a request, unless the last one is still under way. Its failure is shown by the mutation that made it. */
export function useOnce(): (start: () => Promise<unknown>) => void {
  const isBusy = useRef(false)
  return (start) => {
    if (isBusy.current) return
    isBusy.current = true
    const free = () => {
      isBusy.current = false
    }
    start().then(free, free)
  }
}
