/**
 * The shapes of statuses and the icons of pages, drawn inline: no fonts, nothing to load. All are decoration; text
 * accompanies them.
 */
import type { Shape } from '../model/status.js'

const shapes: Readonly<Record<Shape, React.ReactNode>> = {
  disc: <circle cx="8" cy="8" r="5" fill="currentColor" stroke="none" />,
  half: (
    <>
      <circle cx="8" cy="8" r="5" />
      <path d="M8 3a5 5 0 0 1 0 10Z" fill="currentColor" stroke="none" />
    </>
  ),
  arrow: <path d="M3 8h9M8.5 4.5 12 8l-3.5 3.5" />,
  ring: <circle cx="8" cy="8" r="4.5" />,
  dots: (
    <g fill="currentColor" stroke="none">
      <circle cx="3.5" cy="8" r="1.6" />
      <circle cx="8" cy="8" r="1.6" />
      <circle cx="12.5" cy="8" r="1.6" />
    </g>
  ),
  check: <path d="m3 8.5 3.5 3.5L13 4.5" />,
  cross: <path d="m4 4 8 8M12 4l-8 8" />,
  clock: (
    <>
      <circle cx="8" cy="8" r="5.5" />
      <path d="M8 5v3.2l2.2 1.6" />
    </>
  ),
  slash: (
    <>
      <circle cx="8" cy="8" r="5" />
      <path d="m4.5 11.5 7-7" />
    </>
  ),
  hand: (
    <path d="M5 8V4a1 1 0 0 1 2 0v3-4a1 1 0 0 1 2 0v4-3a1 1 0 0 1 2 0v5c0 3-1.5 4.5-4 4.5S4 12 3 9.5c-.4-1 .8-1.8 1.5-1Z" />
  ),
  triangle: <path d="M8 2.5 14 13H2ZM8 6.5V9m0 2v.2" />,
  eye: (
    <>
      <path d="M1.5 8S4 3.8 8 3.8 14.5 8 14.5 8 12 12.2 8 12.2 1.5 8 1.5 8Z" />
      <circle cx="8" cy="8" r="1.8" fill="currentColor" />
    </>
  ),
}

const icons = {
  fleet: <path d="M2 4.5h12M2 8h12M2 11.5h7" />,
  board: <path d="M2.5 3h3v10h-3zM6.5 3h3v6h-3zM10.5 3h3v8h-3z" />,
  turns: <path d="M3 3v10M3 5h5M3 8h8M3 11h6" />,
  trends: <path d="M2.5 2.5v11h11M5 10l2.5-3.5L10 8.5l3.5-5" />,
  evals: <path d="m2 5 1.5 1.5L6 3.5M2 11l1.5 1.5L6 9.5M8.5 5H14M8.5 11H14" />,
  'needs-you': <path d="M8 8a2.6 2.6 0 1 0 0-5.2A2.6 2.6 0 0 0 8 8ZM3 13.5c.6-2.6 2.5-4 5-4s4.4 1.4 5 4" />,
  workspace: <path d="M2 4h4l1.5 1.5H14V12.5H2Z" />,
  schedules: <path d="M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8ZM8 4.5V8l2.5 1.5" />,
  health: <path d="M1.5 8.5H5L6.5 4l3 8 1.5-3.5h3.5" />,
  folder: <path d="M2 4h4l1.5 1.5H14V12.5H2Z" />,
  file: <path d="M4 2h5l3 3v9H4ZM9 2v3h3" />,
  bell: (
    <path d="M8 2a4 4 0 0 0-4 4c0 3.3-1.3 4-1.3 5.3h10.6C13.3 10 12 9.3 12 6a4 4 0 0 0-4-4ZM6.7 13.5a1.3 1.3 0 0 0 2.6 0" />
  ),
  chevron: <path d="m6 4 4 4-4 4" />,
  close: <path d="m4 4 8 8M12 4l-8 8" />,
  sun: (
    <path d="M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6ZM8 1.5v1.3M8 13.2v1.3M1.5 8h1.3M13.2 8h1.3M3.4 3.4l.9.9M11.7 11.7l.9.9M3.4 12.6l.9-.9M11.7 4.3l.9-.9" />
  ),
  moon: <path d="M13 9.5A5.5 5.5 0 0 1 6.5 3a5.5 5.5 0 1 0 6.5 6.5Z" />,
  screen: <path d="M2 3h12v8H2ZM6 14h4M8 11v3" />,
} as const

export type IconName = keyof typeof icons

function Drawing({ children, size }: { readonly children: React.ReactNode; readonly size: number }) {
  return (
    <svg
      aria-hidden="true"
      viewBox="0 0 16 16"
      width={size}
      height={size}
      className="shrink-0"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.6"
      strokeLinecap="round"
      strokeLinejoin="round"
    >
      {children}
    </svg>
  )
}

export const Glyph = ({ shape, size = 12 }: { readonly shape: Shape; readonly size?: number }) => (
  <Drawing size={size}>{shapes[shape]}</Drawing>
)

export const Icon = ({ name, size = 16 }: { readonly name: IconName; readonly size?: number }) => (
  <Drawing size={size}>{icons[name]}</Drawing>
)

export const Brand = ({ size }: { readonly size: number }) => (
  <>
    <span className="text-go">
      <Icon name="bell" size={size} />
    </span>
    Bellwether
  </>
)
