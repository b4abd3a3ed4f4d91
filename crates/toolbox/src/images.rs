//! Prepares the images that `read` returns: limits their size for the model and its host.
//!
//! The bytes come from a sandbox and may be malicious. Decoding happens in memory-safe code, on a blocking thread, for one
//! image at a time, and within limits on size and memory.

use std::borrow::Cow;
use std::io::Cursor;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use image::codecs::jpeg::JpegEncoder;
use image::{DynamicImage, ImageFormat, ImageReader, Limits};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{Block, Error, Reply};

/// Maximum size of a file that is decoded, in bytes.
pub(crate) const MAX_IMAGE_FILE_BYTES: usize = 16 * 1024 * 1024;

/// Maximum width and height of an image that is decoded, in pixels.
const MAX_DECODED_SIDE: u32 = 20_000;

/// Maximum width and height of an image in a result, in pixels.
const MAX_SIDE: u32 = 2000;

/// Maximum memory for decoding, in bytes.
const MAX_DECODED_BYTES: u64 = 128 * 1024 * 1024;

/// Maximum number of pixels of an image that is decoded. A decoder may need several times the memory of the result.
const MAX_PIXELS: u64 = 25_000_000;

/// Maximum size of an image in a result, in bytes. In base64 it takes a third more, and a result has at most 700 KiB.
const MAX_RESULT_BYTES: usize = 480 * 1024;

/// Number of images that are read and decoded at once.
const AT_ONCE: usize = 1;

/// Quality of JPEG files, 1 to 100.
const JPEG_QUALITY: u8 = 80;

/// Factor by which the image is scaled for the next attempt if it has too many bytes.
const SHRINK: f64 = 0.7;

/// Permits for images in memory.
#[derive(Debug, Clone)]
pub(crate) struct Images(Arc<Semaphore>);

impl Default for Images {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }
}

/// An image for a model.
pub(crate) struct Shown {
    bytes: Vec<u8>,
    format: ImageFormat,
    /// Width and height of the file, and of `bytes`.
    pub(crate) original: (u32, u32),
    pub(crate) shown: (u32, u32),
}

impl Shown {
    /// The image as a part of a result.
    pub(crate) fn block(&self) -> Block {
        Block::Image { data_base64: BASE64_STANDARD.encode(&self.bytes), mime_type: self.mime_type() }
    }

    pub(crate) fn mime_type(&self) -> &'static str {
        self.format.to_mime_type()
    }

    /// The result of reading the image file at `path`.
    pub(crate) fn reply(&self, path: &str) -> Reply {
        let ((width, height), (shown_width, shown_height)) = (self.original, self.shown);
        let mut text = format!("{path}: {width}x{height} pixels");
        if self.original != self.shown {
            text += &format!(", shown at {shown_width}x{shown_height}");
        }
        Reply {
            blocks: vec![Block::Text(text), self.block()],
            structured: None,
            is_error: false,
            pending: None,
        }
    }
}

/// Returns the format if `start`, the first bytes of a file, are those of an image that hosts can show.
pub(crate) fn format_of(start: &[u8]) -> Option<ImageFormat> {
    let format = image::guess_format(start).ok()?;
    matches!(format, ImageFormat::Png | ImageFormat::Jpeg | ImageFormat::Gif | ImageFormat::WebP)
        .then_some(format)
}

impl Images {
    /// Waits until memory for an image is free.
    pub(crate) async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        Arc::clone(&self.0).acquire_owned().await.ok()
    }

    /// Prepares the image file at `path` for a model.
    pub(crate) async fn prepare(
        path: &str,
        format: ImageFormat,
        file: Vec<u8>,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Result<Shown, Error> {
        let fail = |problem: String| Error::Image { path: path.to_owned(), problem };
        let prepared = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            prepare(file, format)
        });
        match prepared.await {
            Ok(shown) => shown.map_err(|error| fail(error.to_string())),
            // A panic of the decoder.
            Err(_) => Err(fail("it cannot be decoded".into())),
        }
    }
}

/// Returns the file itself if it is small enough, or else a smaller image. Only the first picture of an animation is
/// kept then.
fn prepare(file: Vec<u8>, format: ImageFormat) -> image::ImageResult<Shown> {
    let (width, height) = ImageReader::with_format(Cursor::new(&file), format).into_dimensions()?;
    if u64::from(width) * u64::from(height) > MAX_PIXELS {
        let problem = image::error::LimitErrorKind::DimensionError;
        return Err(image::ImageError::Limits(image::error::LimitError::from_kind(problem)));
    }
    let mut reader = ImageReader::with_format(Cursor::new(&file), format);
    let mut limits = Limits::default();
    limits.max_image_width = Some(MAX_DECODED_SIDE);
    limits.max_image_height = Some(MAX_DECODED_SIDE);
    limits.max_alloc = Some(MAX_DECODED_BYTES);
    reader.limits(limits);
    // Decoded in any case, so that a host never gets a file that is damaged.
    let decoded = reader.decode()?;
    let original = (decoded.width(), decoded.height());
    if original.0 <= MAX_SIDE && original.1 <= MAX_SIDE && file.len() <= MAX_RESULT_BYTES {
        return Ok(Shown { bytes: file, format, original, shown: original });
    }
    let mut side = f64::from(original.0.max(original.1).min(MAX_SIDE));
    loop {
        let picture = within(&decoded, side as u32);
        let (bytes, format) = encode(&picture)?;
        if bytes.len() <= MAX_RESULT_BYTES || side < 2.0 {
            return Ok(Shown { bytes, format, original, shown: (picture.width(), picture.height()) });
        }
        side *= SHRINK;
    }
}

fn within(picture: &DynamicImage, side: u32) -> Cow<'_, DynamicImage> {
    if picture.width() <= side && picture.height() <= side {
        return Cow::Borrowed(picture);
    }
    // Needs no memory beside the result.
    Cow::Owned(picture.thumbnail(side, side))
}

/// Encodes as PNG, which keeps text sharp, or as JPEG if that is too long and nothing is transparent.
fn encode(picture: &DynamicImage) -> image::ImageResult<(Vec<u8>, ImageFormat)> {
    let mut png = Vec::new();
    picture.write_to(&mut Cursor::new(&mut png), ImageFormat::Png)?;
    if png.len() <= MAX_RESULT_BYTES || picture.color().has_alpha() {
        return Ok((png, ImageFormat::Png));
    }
    let mut jpeg = Vec::new();
    picture.to_rgb8().write_with_encoder(JpegEncoder::new_with_quality(&mut jpeg, JPEG_QUALITY))?;
    Ok((jpeg, ImageFormat::Jpeg))
}

#[cfg(test)]
mod tests {
    use image::RgbImage;

    use super::*;

    fn png(picture: &DynamicImage) -> Vec<u8> {
        let mut bytes = Vec::new();
        picture.write_to(&mut Cursor::new(&mut bytes), ImageFormat::Png).unwrap();
        bytes
    }

    /// Noise, which no format can compress.
    fn noise(width: u32, height: u32) -> DynamicImage {
        let mut state = 1_u32;
        RgbImage::from_fn(width, height, |_, _| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            image::Rgb([(state >> 8) as u8, (state >> 16) as u8, (state >> 24) as u8])
        })
        .into()
    }

    #[test]
    fn a_small_image_is_returned_as_it_is() {
        let file = png(&noise(20, 10));
        let shown = prepare(file.clone(), ImageFormat::Png).unwrap();
        assert_eq!((shown.bytes, shown.original, shown.shown), (file, (20, 10), (20, 10)));
    }

    #[test]
    fn a_large_image_becomes_smaller_and_keeps_its_shape() {
        let file = png(&DynamicImage::new_rgb8(4000, 1000));
        let shown = prepare(file, ImageFormat::Png).unwrap();
        assert_eq!((shown.original, shown.shown), ((4000, 1000), (2000, 500)));
        let back = image::load_from_memory(&shown.bytes).unwrap();
        assert_eq!((back.width(), back.height()), (2000, 500));
    }

    #[test]
    fn an_image_that_does_not_compress_fits_too() {
        let shown = prepare(png(&noise(1500, 1500)), ImageFormat::Png).unwrap();
        assert!(shown.bytes.len() <= MAX_RESULT_BYTES, "{}", shown.bytes.len());
        assert!(image::load_from_memory(&shown.bytes).is_ok());
        let transparent = DynamicImage::ImageRgba8(noise(1500, 1500).to_rgba8());
        let shown = prepare(png(&transparent), ImageFormat::Png).unwrap();
        assert!(shown.bytes.len() <= MAX_RESULT_BYTES && shown.format == ImageFormat::Png);
    }

    #[test]
    fn a_file_that_would_take_too_much_memory_is_rejected() {
        // The header of a PNG of 19,999 by 19,999 pixels, which would take a gigabyte.
        let mut file = png(&DynamicImage::new_rgb8(1, 1));
        file[16..24].copy_from_slice(&[0, 0, 0x4e, 0x1f, 0, 0, 0x4e, 0x1f]);
        assert!(prepare(file, ImageFormat::Png).is_err());
        assert!(prepare(b"\x89PNG\r\n\x1a\nnothing".to_vec(), ImageFormat::Png).is_err());
    }

    #[test]
    fn only_formats_that_hosts_show_are_images() {
        assert_eq!(format_of(b"\x89PNG\r\n\x1a\n"), Some(ImageFormat::Png));
        assert_eq!(format_of(b"GIF89a"), Some(ImageFormat::Gif));
        for other in [b"BM".as_slice(), b"II*\0", b"%PDF", b"text", b""] {
            assert_eq!(format_of(other), None, "{other:?}");
        }
    }
}
