/** Whether the window is wide enough for columns; a narrow one gets rows of two lines. */
import { useSyncExternalStore } from 'react'

const wide = matchMedia('(min-width: 900px)')

export const useWide = (): boolean =>
  useSyncExternalStore(
    (changed) => {
      wide.addEventListener('change', changed)
      return () => wide.removeEventListener('change', changed)
    },
    () => wide.matches,
  )
